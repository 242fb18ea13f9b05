"""Servers that a killed tuner left behind are found in its journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.trials import ended
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchPlan, LaunchSpec
from tuner.core.outcome import Kind
from tuner.runs.orphans import end_orphans
from tuner.runs.trial_folder import TrialFolder

if TYPE_CHECKING:
    from pathlib import Path


def journal(study: Path, number: int, *, pid: int | None = None) -> TrialFolder:
    """A trial that was about to be launched, or was where there is a process."""
    folder = TrialFolder.of(study, number)
    plan = LaunchPlan(("llama-server",), {}, port=1234, api_key="key", token=f"token {number}")
    folder.journal(LaunchSpec(Candidate.of({"ubatch-size": 512})), plan)
    if pid is not None:
        folder.record_process(pid, 1000.5)
    return folder


class Ender:
    """Ends servers; those of some tokens still run."""

    def __init__(self, *running: str) -> None:
        self.asked: list[tuple[int, float, str]] = []
        self._running = running

    def __call__(self, pid: int, started_at: float, token: str) -> bool:
        self.asked.append((pid, started_at, token))
        return token in self._running


def test_server_of_a_trial_without_an_end_is_ended(tmp_path: Path) -> None:
    journal(tmp_path, 4, pid=4242)
    ender = Ender("token 4")
    assert end_orphans(tmp_path, ender) == [4]
    assert ender.asked == [(4242, 1000.5, "token 4")]


def test_server_whose_process_was_never_written_down_is_looked_for_by_its_token(tmp_path: Path) -> None:
    journal(tmp_path, 0)
    ender = Ender("token 0")
    assert end_orphans(tmp_path, ender) == [0]
    assert ender.asked == [(0, 0.0, "token 0")]


def test_server_that_does_not_run_any_more_is_not_told_of(tmp_path: Path) -> None:
    journal(tmp_path, 0, pid=4242)
    ender = Ender()
    assert end_orphans(tmp_path, ender) == []
    assert len(ender.asked) == 1


def test_trial_with_an_end_is_left_alone(tmp_path: Path) -> None:
    journal(tmp_path, 0, pid=4242).record_result(ended(Kind.CRASHED), 3.0)
    ender = Ender("token 0")
    assert end_orphans(tmp_path, ender) == []
    assert ender.asked == []


def test_end_that_was_cut_off_is_none(tmp_path: Path) -> None:
    (journal(tmp_path, 0, pid=4242).path / "result.json").write_text('{"outcome": {"ki', encoding="utf-8")
    assert end_orphans(tmp_path, Ender("token 0")) == [0]


def test_every_trial_is_looked_at(tmp_path: Path) -> None:
    for number in (0, 2, 10):
        journal(tmp_path, number, pid=4000 + number)
    assert sorted(end_orphans(tmp_path, Ender("token 0", "token 2", "token 10"))) == [0, 2, 10]


@pytest.mark.parametrize("made", [False, True])
def test_study_without_a_trial_has_no_orphans(tmp_path: Path, *, made: bool) -> None:
    if made:
        (tmp_path / "trials" / "0").mkdir(parents=True)
        (tmp_path / "trials" / "a note of the user's").touch()
    ender = Ender("token 0")
    assert end_orphans(tmp_path, ender) == []
    assert ender.asked == []
