"""The environment of the servers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.engine.environment import (
    TOKEN_VARIABLE,
    empty_config_home,
    noted,
    server_environment,
    serving_environment,
)

if TYPE_CHECKING:
    import pytest

EMPTY = Path("/empty")
USERS = {
    "PATH": "/usr/bin",
    "LD_LIBRARY_PATH": "/opt/cuda/lib64",
    "CUDA_VISIBLE_DEVICES": "1,0",
    "GGML_CUDA_P2P": "1",
    "GGML_CUDA_ALLREDUCE": "nccl",
    "LLAMA_ARG_CTX_SIZE": "512",
    "LLAMA_API_KEY": "secret",
    "LLAMA_CACHE": "/elsewhere",
    "HF_TOKEN": "secret",
    "HUGGING_FACE_HUB_TOKEN": "secret",
    "TUNER_STORAGE": "secret",
    "PGPASSWORD": "secret",
    "XDG_CONFIG_HOME": "/home/me/.config",
}


def test_options_in_disguise_and_keys_are_scrubbed() -> None:
    environment = server_environment(USERS, EMPTY, allow_p2p=False)
    assert not [name for name in environment if name.startswith("LLAMA_")]
    assert "secret" not in environment.values()


def test_passwords_of_storages_reach_no_tuned_server() -> None:
    assert not {"TUNER_STORAGE", "PGPASSWORD"} & serving_environment(USERS, {}).keys()


def test_config_folder_is_the_empty_one_and_a_crash_forks_nothing() -> None:
    environment = server_environment(USERS, EMPTY, allow_p2p=False)
    assert environment["XDG_CONFIG_HOME"] == "/empty"
    assert environment["GGML_NO_BACKTRACE"] == "1"


def test_what_finds_libraries_and_cards_stays() -> None:
    environment = server_environment(USERS, EMPTY, allow_p2p=False)
    for name in ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "GGML_CUDA_ALLREDUCE"):
        assert environment[name] == USERS[name]


def test_peer_access_stays_only_where_it_was_asked_for() -> None:
    assert "GGML_CUDA_P2P" not in server_environment(USERS, EMPTY, allow_p2p=False)
    assert server_environment(USERS, EMPTY, allow_p2p=True)["GGML_CUDA_P2P"] == "1"


def test_the_users_own_mapping_is_not_touched() -> None:
    before = dict(USERS)
    server_environment(USERS, EMPTY, allow_p2p=False)
    assert before == USERS


def test_noted_is_what_the_user_set_and_a_measurement_depends_on() -> None:
    environment = server_environment(USERS, EMPTY, allow_p2p=True)
    assert noted(environment) == {
        "CUDA_VISIBLE_DEVICES": "1,0",
        "GGML_CUDA_ALLREDUCE": "nccl",
        "GGML_CUDA_P2P": "1",
    }
    assert TOKEN_VARIABLE not in noted({**environment, TOKEN_VARIABLE: "x"})


def test_a_server_that_serves_gets_what_was_measured_and_the_callers_address_and_key() -> None:
    caller = {
        "PATH": "/bin",
        "LD_LIBRARY_PATH": "/opt/cuda",
        "XDG_CONFIG_HOME": "/home/me/.config",
        "LLAMA_ARG_THREADS": "1",
        "GGML_CUDA_P2P": "1",
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "1",
        "LLAMA_API_KEY": "k",
        "LLAMA_ARG_HOST": "::1",
        "LLAMA_ARG_PORT": "9000",
        "LLAMA_CACHE": "/c",
    }
    assert serving_environment(caller, {"GGML_CUDA_ALLREDUCE": "internal"}) == {
        "PATH": "/bin",
        "LD_LIBRARY_PATH": "/opt/cuda",
        "XDG_CONFIG_HOME": "/dev/null",
        "LLAMA_API_KEY": "k",
        "LLAMA_ARG_HOST": "::1",
        "LLAMA_ARG_PORT": "9000",
        "LLAMA_CACHE": "/c",
        "GGML_CUDA_ALLREDUCE": "internal",
    }


def test_where_a_toolkit_lies_is_not_noted() -> None:
    toolkit = {"CUDA_HOME": "/usr/local/cuda", "CUDA_VERSION": "13.0.2", "NCCL_VERSION": "2.28.3-1"}
    assert noted({**toolkit, "NCCL_NVLS_ENABLE": "0"}) == {"NCCL_NVLS_ENABLE": "0"}


def test_the_config_folder_is_empty_and_one_for_all_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = empty_config_home()
    assert empty_config_home() == first
    assert list(first.iterdir()) == []
    (first / "llama.cpp").mkdir()  # somebody put something there
    other = empty_config_home()
    assert other != first
    assert list(other.iterdir()) == []
