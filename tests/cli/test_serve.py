"""`tuner serve` becomes the tuned server, and says what differs before it does."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_engine import FakeEngine, FakeProcess
from tests.support.gguf_files import model_metadata, write_gguf
from tests.support.tuner_command import DEADLINE_S, ROOT, Made, TunerCommand, assert_refused
from tuner.rig.lock import RigLock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.support.fake_engine import DeviceRow

OTHER_CARD = [
    ("CUDA0", "NVIDIA GeForce RTX 4090", 24564, 24100),
    ("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 24100),
]


@pytest.fixture
def served(made: Made, tmp_path: Path) -> TunerCommand:
    """A command on a machine of its own, with a copy of the study."""
    shutil.copytree(made.command.study, tmp_path / "results" / "mine")
    return TunerCommand(tmp_path)


def with_devices(command: TunerCommand, devices: Sequence[DeviceRow]) -> TunerCommand:
    command.fake = FakeEngine(command.folder, devices=devices)
    return command


def best_path(command: TunerCommand, **changes: Any) -> str:  # noqa: ANN401 - parts of best.json
    """best.json with some parts changed."""
    best = command.best()
    for name, change in changes.items():
        best[name] |= change
    path = command.folder / "best.json"
    path.write_text(json.dumps(best), encoding="utf-8")
    return str(path)


@contextmanager
def serving(command: TunerCommand, *words: str) -> Iterator[tuple[FakeProcess, int]]:
    """The server that `tuner serve` became, and the process id that was started."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log_path = command.folder / "serve.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tuner", "serve", *words, "--port", str(port)],
            cwd=ROOT,
            env=command.environment | {"LLAMA_ARG_THREADS": "1", "GGML_CUDA_P2P": "1"},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        server = FakeProcess(process, log_path)
        server.wait_for_log("listening on http", DEADLINE_S)
        yield server, process.pid
    finally:
        process.kill()
        process.wait(DEADLINE_S)


def test_it_becomes_the_server_that_was_measured(served: TunerCommand) -> None:
    with serving(served, str(served.study / "best.json"), "--alias", "owl") as (server, pid):
        assert server.get("/health").status_code == 200
        assert server.get("/v1/models").json()["data"][0]["id"] == "owl"
    (start,) = [event for event in served.fake.events("start") if "-m" in event["argv"]]
    assert start["pid"] == pid
    argv = served.best()["winner"]["argv"]
    assert start["argv"][: len(argv) - 1] == argv[1:]
    assert start["argv"][len(argv) - 1 : -1] == ["--alias", "owl", "--port"]


def test_others_are_named_and_nothing_starts(served: TunerCommand) -> None:
    with_devices(served, OTHER_CARD)
    ended = served.run_apart("serve", str(served.study / "best.json"))
    assert_refused(ended, "CUDA0 was NVIDIA GeForce RTX 5080, and is NVIDIA GeForce RTX 4090", "--anyway")
    path = best_path(served, engine={"digest": "0" * 64}, model={"fingerprint": "x"})
    ended = served.run_apart("serve", path)
    assert_refused(
        ended, "engine: tuned for", "[000000000000]", "model: tuned for", "devices: CUDA0", "--anyway"
    )
    assert served.launches() == []


def test_anyway_starts_it_and_says_what_differs(served: TunerCommand) -> None:
    with_devices(served, OTHER_CARD)
    with serving(served, "mine", "--results", str(served.results), "--anyway") as (server, _):
        assert "note: devices: CUDA0 was NVIDIA GeForce RTX 5080" in server.log
        assert server.get("/health").status_code == 200


def test_another_model_file_is_refused(served: TunerCommand) -> None:
    other = write_gguf(served.folder / "other.gguf", model_metadata("llama") | {"general.name": "Other"})
    ended = served.run_apart("serve", str(served.study / "best.json"), "--model-path", str(other))
    assert_refused(ended, "another file than was measured")


@pytest.mark.parametrize("word", ["--anyway", "--port=8080"])
def test_what_is_not_there_cannot_be_started(served: TunerCommand, word: str) -> None:
    best = served.best()
    best["winner"]["argv"][0] = "/gone/llama-server"
    path = served.folder / "best.json"
    path.write_text(json.dumps(best), encoding="utf-8")
    assert_refused(served.run_apart("serve", str(path), word), "/gone/llama-server: no such file")


def test_devices_that_a_tuner_measures_on_are_left_alone(served: TunerCommand) -> None:
    best = served.best()
    identity = tuple(f"{row['name']}:{row['description']}" for row in best["devices"])
    shared = served.folder / "tmp" / "split-ratio-tuner"
    shared.parent.mkdir(exist_ok=True)
    with RigLock(identity, shared):
        ended = served.run_apart("serve", str(served.study / "best.json"))
    assert_refused(ended, "CUDA0", str(os.getpid()))
    assert served.launches() == []
