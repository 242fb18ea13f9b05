"""A study opens in optuna-dashboard, as the README says."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.tuner_command import TunerCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 60.0
README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    command = TunerCommand(tmp_path)
    command.tune("--launches", "4")
    return command.study


@pytest.fixture
def dashboard(study: Path) -> Iterator[str]:
    """The address of one that shows the study."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).parent / "optuna-dashboard"
    argv = [str(program), f"sqlite:///{study / 'study.db'}", "--host", "127.0.0.1", "--port", str(port)]
    with (study / "dashboard.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(DEADLINE_S)


def answered(url: str) -> dict[str, Any]:
    """What it answers, once it listens."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            response = httpx.get(url, timeout=DEADLINE_S)
        except httpx.ConnectError:
            assert time.monotonic() < end_s, "optuna-dashboard does not listen"
            time.sleep(0.05)
            continue
        assert response.status_code == 200
        document: dict[str, Any] = response.json()
        return document


def test_a_study_opens_in_optuna_dashboard(dashboard: str, study: Path) -> None:
    (listed,) = answered(f"{dashboard}/api/studies")["study_summaries"]
    assert (listed["study_name"], listed["directions"]) == (study.name, ["maximize"])
    shown = answered(f"{dashboard}/api/studies/{listed['study_id']}?after=0")
    assert [trial["state"] for trial in shown["trials"]].count("Complete") >= 1
    assert len(shown["trials"]) == 4
    assert "optuna-dashboard sqlite:///results/" in README.read_text(encoding="utf-8")
