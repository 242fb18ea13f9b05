"""What readers of a study are told beside its trials; they change nothing."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.tuner_command import TunerCommand
from tuner.study import StudyStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a study of two launches."""
    command = TunerCommand(tmp_path)
    command.tune("--launches", "2")
    return command.study / "study.db"


def test_each_trial_has_the_time_in_which_it_was_made(path: Path) -> None:
    store = StudyStore.open(path)
    clock, records = store.clock(), store.records()
    assert list(clock) == [0, 1]
    (began, ended), (second_began, second_ended) = clock.values()
    assert ended is not None
    assert second_ended is not None
    assert time.time() - 60 < began < ended <= second_began < second_ended <= time.time()
    assert ended - began == pytest.approx(records[0].wall_s, abs=1.0)


def test_a_trial_that_has_not_ended_has_no_end(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE trials SET state = 'RUNNING', datetime_complete = NULL WHERE number = 1")
    assert StudyStore.open(path).clock()[1][1] is None


def test_what_was_known_of_memory_is_read_and_not_written(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM study_user_attributes WHERE key = 'memory_before'")
    assert StudyStore.open(path).known_memory() == ()
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT COUNT(*) FROM study_user_attributes WHERE key = 'memory_before'")
        assert rows.fetchone() == (0,)


def test_what_was_free_and_what_was_to_stay_free_is_known(path: Path) -> None:
    memory = StudyStore.open(path).facts["memory"]
    assert list(memory["free_mib"]) == list(memory["reserve_mib"]) == ["CUDA0", "CUDA1"]
    assert all(isinstance(mib, int) for row in memory.values() for mib in row.values())
