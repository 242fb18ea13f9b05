"""The script starts the server that was measured, from any path, and says when the cards are others."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.system_tools import system_tool
from tests.support.winners import (
    DEVICES,
    MODEL,
    ODD_FOLDER,
    UUIDS,
    a_winner,
    recorded,
    recorder,
    run_script,
)
from tuner.core.pinning import ORDER, VISIBLE
from tuner.report.exports.posix_shell import PosixShell

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.report.exports.form import Served


def script(folder: Path, winner: Served) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "serve me.sh"
    path.write_text(PosixShell().write(winner), encoding="utf-8")
    return path


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest) -> Path:
    return system_tool(request.param)


def test_each_word_arrives_whatever_is_in_it(tmp_path: Path, shell: Path) -> None:
    program = recorder(tmp_path / ODD_FOLDER / "llama-server")
    words = ["--chat-template-kwargs", '{"a": "it\'s $(id)"}', "--tags", "a\nb *", "", "-ts", "24,7"]
    winner = a_winner(words, program=str(program), model=f"/{ODD_FOLDER}/m.gguf")
    ended = run_script(
        shell, script(tmp_path / ODD_FOLDER, winner), environment={"RECORD": str(tmp_path / "r")}
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert recorded(tmp_path / "r")[0] == ["-m", f"/{ODD_FOLDER}/m.gguf", *words]


def test_words_given_to_the_script_go_to_the_server_too(tmp_path: Path, shell: Path) -> None:
    winner = a_winner(["-ts", "24,7"], program=str(recorder(tmp_path / "llama-server")))
    run_script(shell, script(tmp_path, winner), "--port", "9000", environment={"RECORD": str(tmp_path / "r")})
    assert recorded(tmp_path / "r")[0] == ["-m", MODEL, "-ts", "24,7", "--port", "9000"]


def test_the_environment_is_the_measured_one_and_serving_stays_the_callers(
    tmp_path: Path, shell: Path
) -> None:
    winner = a_winner(
        program=str(recorder(tmp_path / "llama-server")), environment={"GGML_CUDA_ALLREDUCE": "int ernal"}
    )
    caller = {
        "RECORD": str(tmp_path / "r"),
        "LLAMA_ARG_THREADS": "1",
        "GGML_CUDA_P2P": "1",
        "CUDA_VISIBLE_DEVICES": "1,0",
        "XDG_CONFIG_HOME": "/home/me/.config",
        "LLAMA_API_KEY": "secret",
        "LLAMA_ARG_HOST": "::1",
        "MY_OWN": "two\nLLAMA_ARG_X=lines",
    }
    run_script(shell, script(tmp_path, winner), environment=caller)
    got = recorded(tmp_path / "r")[1]
    assert "LLAMA_ARG_THREADS" not in got
    assert "GGML_CUDA_P2P" not in got
    assert got["GGML_CUDA_ALLREDUCE"] == "int ernal"
    assert (got[VISIBLE], got[ORDER]) == (",".join(UUIDS), "PCI_BUS_ID")
    assert got["XDG_CONFIG_HOME"] == "/dev/null"
    assert {name: got[name] for name in ("LLAMA_API_KEY", "LLAMA_ARG_HOST", "MY_OWN")} == {
        name: caller[name] for name in ("LLAMA_API_KEY", "LLAMA_ARG_HOST", "MY_OWN")
    }


def test_a_card_that_is_gone_is_named_and_nothing_starts(tmp_path: Path, shell: Path) -> None:
    winner = a_winner(program=str(recorder(tmp_path / "llama-server")))
    cards, environment = (UUIDS[0], "GPU-other"), {"RECORD": str(tmp_path / "r")}
    ended = run_script(shell, script(tmp_path, winner), cards=cards, environment=environment)
    assert ended.returncode == 1
    assert UUIDS[1] in ended.stderr
    assert "SPLIT_RATIO_ANYWAY=1" in ended.stderr
    assert not (tmp_path / "r.words").exists()
    ended = run_script(shell, script(tmp_path, winner), environment=environment | {"SPLIT_RATIO_ANYWAY": "1"})
    assert ended.returncode == 0
    assert (tmp_path / "r.words").exists()


def test_cards_that_are_all_there_start_it(tmp_path: Path, shell: Path) -> None:
    winner = a_winner(program=str(recorder(tmp_path / "llama-server")))
    environment, cards = {"RECORD": str(tmp_path / "r")}, (UUIDS[1], "GPU-new", UUIDS[0])
    assert run_script(shell, script(tmp_path, winner), cards=cards, environment=environment).returncode == 0


@pytest.mark.parametrize("description", ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 50", "*"])
def test_a_name_that_is_another_card_now_is_said(tmp_path: Path, shell: Path, description: str) -> None:
    """Without UUIDs the engine's names and products are all that can be looked at."""
    winner = a_winner(
        program=str(recorder(tmp_path / "llama-server")),
        devices=(("CUDA0", description, None), (*DEVICES[1][:2], None)),
    )
    ended = run_script(shell, script(tmp_path, winner), environment={"RECORD": str(tmp_path / "r")})
    assert ended.returncode == 1
    assert f"CUDA0 is not '{description}'" in ended.stderr
    assert not (tmp_path / "r.words").exists()


def test_an_engine_that_is_gone_is_named(tmp_path: Path, shell: Path) -> None:
    ended = run_script(shell, script(tmp_path, a_winner(program="/nowhere/llama-server")))
    assert ended.returncode == 1
    assert "/nowhere/llama-server" in ended.stderr


@pytest.mark.parametrize(
    "winner",
    [
        a_winner(program=f"/{ODD_FOLDER}/llama-server", environment={"GGML_A": "b c"}),
        a_winner(devices=(("RPC0", "host:1", None),), words=["--rpc", "host:1"]),
    ],
)
def test_shellcheck_has_nothing_to_say(tmp_path: Path, winner: Served) -> None:
    # SC2016: what looks like a variable in single quotes is part of a path, and is to stay as it is
    checked = subprocess.run(
        [system_tool("shellcheck"), "--exclude=SC2016", script(tmp_path, winner)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "")
