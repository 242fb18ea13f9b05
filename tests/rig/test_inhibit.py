"""The machine stays awake while a run lasts, or the run says why it may not."""

import time
from pathlib import Path

from tuner.rig.inhibit import SleepInhibitor


def program(folder: Path, script: str) -> str:
    path = folder / "systemd-inhibit"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_the_lock_is_held_while_entered_and_given_back(tmp_path: Path) -> None:
    held = tmp_path / "held"
    inhibitor = SleepInhibitor(
        program(tmp_path, f'echo "$@" > {held}; while [ $# -gt 1 ]; do shift; done; "$1"; rm {held}')
    )
    with inhibitor:
        assert inhibitor.problem is None
        deadline = time.monotonic() + 5
        while not held.exists() or not held.stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert "--what=sleep:idle:handle-lid-switch" in held.read_text(encoding="utf-8")
    assert not held.exists()


def test_a_refusal_is_told_and_no_error(tmp_path: Path) -> None:
    with SleepInhibitor(program(tmp_path, "echo Failed to inhibit: Access denied >&2; exit 1")) as inhibitor:
        assert inhibitor.problem == "Failed to inhibit: Access denied"


def test_a_program_that_cannot_be_started_is_told_and_no_error(tmp_path: Path) -> None:
    with SleepInhibitor(str(tmp_path / "nothing")) as inhibitor:
        assert inhibitor.problem == "systemd-inhibit cannot be started: No such file or directory"


def test_machine_that_cannot_sleep_needs_no_lock(tmp_path: Path) -> None:
    with SleepInhibitor(str(tmp_path / "nothing"), can_suspend=False) as inhibitor:
        assert inhibitor.problem is None
