"""The screens of `tuner doctor`, whole, and what it does with what it is given."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.elf_files import BINARY, PTX, fat_container, kernels, write_elf
from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import Tensor, model_metadata, write_sparse_gguf
from tests.support.played_nvml import play
from tests.support.tuner_command import Ended, TunerCommand
from tuner.cli.build import checkup
from tuner.core.checkup.facts import HostFacts, ModelDisk
from tuner.rig.doctor_facts import read_driver
from tuner.rig.nvml import read_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.fake_engine import DeviceRow

SCREENS = Path(__file__).parents[1] / "fixtures" / "screens"
COLUMNS = 100
ONE_SCREEN_LINES = 50
F32_BYTES = 4

UNEQUAL: list[DeviceRow] = [
    ("CUDA0", "NVIDIA GeForce RTX 5080", 16303, 15900),
    ("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 24000),
]
TWINS: list[DeviceRow] = [
    ("CUDA0", "NVIDIA GeForce RTX 3090", 24576, 24100),
    ("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 15100),
]


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of which everything is known; its cards are played by each test."""

    def host(model_paths: Sequence[Path], results: Path) -> HostFacts:
        disk = ModelDisk(read_mib_s=3100, cached_share=0.25, file_system="ext4") if model_paths else None
        return HostFacts(
            memory_total_mib=64_000,
            memory_available_mib=52_000,
            results_folder=str(results),
            results_free_mib=412_000,
            is_wsl=False,
            can_suspend=True,
            awake_problem=None,
            model_disk=disk,
        )

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(checkup, "read_host", host)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((COLUMNS, ONE_SCREEN_LINES)))
    play_cards(monkeypatch, "no-driver")


def play_cards(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    nvml = play(name)
    monkeypatch.setattr(checkup, "read_gpus", partial(read_gpus, nvml=nvml))
    monkeypatch.setattr(checkup, "read_driver", partial(read_driver, nvml=nvml))


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)


def cuda_engine(
    folder: Path, *architectures: tuple[int, str], texts: bytes = b"", links: Sequence[str] = ()
) -> Path:
    """The fake with a CUDA back end beside it."""
    path = folder / "engine" / "llama-server"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{FakeEngine.path}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    sections = {
        ".rodata": kernels((1, 1), (30, 30), (8, 8), (2, 2)) + texts,
        ".nv_fatbin": fat_container(*architectures),
    }
    write_elf(path.with_name("libggml-cuda.so"), sections, ["libcudart.so.12", "libcublas.so.12", *links])
    return path


def large_model(folder: Path) -> Path:
    """A hybrid of 27B parameters at 8 bits, as far as its header goes."""
    metadata = model_metadata(
        "qwen35",
        block_count=65,
        nextn_predict_layers=1,
        context_length=262_144,
        embedding_length=5120,
        attention__head_count=24,
        attention__head_count_kv=4,
        attention__key_length=256,
        attention__value_length=256,
        full_attention_interval=4,
    )
    elements = 27 * 2**30 // F32_BYTES
    weights = Tensor("token_embd.weight", (elements,), size_bytes=elements * F32_BYTES)
    return write_sparse_gguf(folder / "large.gguf", metadata | {"general.name": "Large 27B"}, [weights])


def assert_screen(name: str, said: str, engine: Path | None = None) -> None:
    """The screen of that name, whatever this machine's path of the engine."""
    if engine is not None:
        said = said.replace(str(engine.resolve()), "/opt/llama.cpp/bin/llama-server")
        said = re.sub(r"\[[0-9a-f]{12}\]", "[0123456789ab]", said)
    assert said == (SCREENS / f"{name}.txt").read_text(encoding="utf-8")
    assert len(said.splitlines()) <= ONE_SCREEN_LINES


def refused(ended: Ended, part: str) -> None:
    assert ended.code == 2, ended
    assert part in ended.stderr
    assert ended.stdout == ""


# --- whole screens


@pytest.mark.server
def test_screen_of_the_real_engine_without_a_card(
    command: TunerCommand, llama_server_path: Path, smollm2_path: Path
) -> None:
    ended = command.run("doctor", str(smollm2_path), "--server", str(llama_server_path))
    assert ended.code == 0, ended
    assert_screen("doctor-no-card", ended.stdout, llama_server_path)


@pytest.mark.usefixtures("no_engine")
def test_screen_of_a_machine_that_has_nothing(command: TunerCommand) -> None:
    ended = command.run("doctor")
    assert ended.code == 1
    assert_screen("doctor-nothing", ended.stdout)


def test_screen_of_an_unequal_pair_and_a_build_for_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_cards(monkeypatch, "5080-and-3090")
    command = TunerCommand(tmp_path, FakeEngine(tmp_path, devices=UNEQUAL))
    engine = cuda_engine(tmp_path, (BINARY, "86"), (BINARY, "89"), texts=b"NCCL not compiled in\0")
    ended = command.run("doctor", str(large_model(tmp_path)), "--server", str(engine))
    assert ended.code == 1
    assert_screen("doctor-5080-and-3090", ended.stdout, engine)


def test_screen_of_equal_cards_one_of_them_on_a_riser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_cards(monkeypatch, "two-3090-one-on-a-riser")
    command = TunerCommand(tmp_path, FakeEngine(tmp_path, devices=TWINS))
    engine = cuda_engine(tmp_path, (BINARY, "86"), (PTX, "80"), links=["libnccl.so.2"])
    ended = command.run("doctor", str(large_model(tmp_path)), "--server", str(engine))
    assert ended.code == 0
    assert_screen("doctor-riser", ended.stdout, engine)


# --- what it is given


def test_json_is_the_list_of_checks(command: TunerCommand) -> None:
    ended = command.run("doctor", str(command.model), "--server", str(command.fake.path), "--json")
    checks = json.loads(ended.stdout)
    assert ended.code == 0
    assert all(set(check) == {"topic", "subject", "level", "text", "remedy"} for check in checks)
    assert {check["level"] for check in checks} <= {"ok", "warning", "problem", "unknown"}
    assert {"engine", "devices", "model", "fit", "memory", "disk", "sleep"} <= {
        check["topic"] for check in checks
    }


def test_every_problem_and_warning_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rows in (("5080-and-3090", UNEQUAL), ("two-3090-one-on-a-riser", TWINS)):
        play_cards(monkeypatch, name)
        command = TunerCommand(tmp_path, FakeEngine(tmp_path, devices=rows))
        ended = command.run("doctor", "--server", str(command.fake.path), "--json")
        bad = [check for check in json.loads(ended.stdout) if check["level"] in {"warning", "problem"}]
        assert bad
        assert all(check["remedy"] for check in bad)


def test_nothing_is_launched(command: TunerCommand) -> None:
    command.run("doctor", str(command.model), "--server", str(command.fake.path))
    assert command.launches() == []
    assert not command.results.exists()


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_the_cards_are_looked_at_all_the_same(
    command: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_cards(monkeypatch, "5080-and-3090")
    ended = command.run("doctor", str(command.model))
    assert ended.code == 1
    for part in ("no llama-server on the PATH", "GPU 0: NVIDIA GeForce RTX 3090", "GPU 1: fits alone"):
        assert part in ended.stdout


def test_engine_that_cannot_be_used_is_a_problem_and_the_rest_is_shown(command: TunerCommand) -> None:
    ended = command.run("doctor", "--server", str(command.folder / "none"))
    assert ended.code == 1
    assert "no such file" in ended.stdout
    assert "-> give the path of a llama-server with --server" in ended.stdout
    assert "memory" in ended.stdout


def test_order_of_devices_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_cards(monkeypatch, "5080-and-3090")
    command = TunerCommand(tmp_path, FakeEngine(tmp_path, devices=UNEQUAL))
    words = ("doctor", "--server", str(command.fake.path), "--devices")
    assert "order: CUDA1, CUDA0: also their order on the bus" in command.run(*words, "CUDA1,CUDA0").stdout
    said = command.run(*words, "CUDA0").stdout
    assert "GPU 0 (NVIDIA GeForce RTX 3090): left out by --devices CUDA0" in said


def test_unknown_device_is_refused(command: TunerCommand) -> None:
    ended = command.run("doctor", "--server", str(command.fake.path), "--devices", "CUDA7")
    refused(ended, "--devices: there is no device 'CUDA7'")


def test_model_that_is_missing_is_refused(command: TunerCommand) -> None:
    refused(command.run("doctor", str(command.folder / "none.gguf")), "none.gguf: there is no such file")


FLAGS: dict[str, Callable[[TunerCommand], list[str]]] = {
    "with a model": lambda command: [str(command.model), "--", "--rpc", "127.0.0.1:1"],
    "without a model": lambda _: ["--", "--rpc", "127.0.0.1:1"],
}


@pytest.mark.parametrize("case", FLAGS)
def test_flags_of_the_engine_are_for_its_devices(command: TunerCommand, case: str) -> None:
    ended = command.run("doctor", "--server", str(command.fake.path), *FLAGS[case](command))
    assert ended.code == 0, ended
    asked = [event["argv"] for event in command.fake.events("start")]
    assert ["--rpc", "127.0.0.1:1", "--list-devices"] in asked


def test_flag_that_the_engine_does_not_have_is_refused(command: TunerCommand) -> None:
    refused(
        command.run("doctor", "--server", str(command.fake.path), "--", "--jinja", "stray"),
        "'stray' is no flag",
    )


@pytest.mark.server
def test_rpc_server_that_is_down_is_a_problem(command: TunerCommand, llama_server_path: Path) -> None:
    ended = command.run("doctor", "--server", str(llama_server_path), "--", "--rpc", "127.0.0.1:1")
    assert ended.code == 1
    assert "Failed to connect to 127.0.0.1:1" in ended.stdout
    assert "-> start ggml-rpc-server there" in ended.stdout


def test_hidden_cards_are_told_from_lost_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_cards(monkeypatch, "5080-and-3090")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    command = TunerCommand(tmp_path, FakeEngine(tmp_path, devices=[]))
    said = command.run("doctor", "--server", str(command.fake.path)).stdout
    assert "the engine lists no device (CUDA_VISIBLE_DEVICES=-1)" in " ".join(said.split())
