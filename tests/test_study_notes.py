"""What a study keeps beside its trials: estimates, what was not launched, and what was known of memory."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.support.trials import a_record, measured
from tuner.core.candidate import Candidate
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import LaunchSpec
from tuner.core.memory.learned import Observation
from tuner.core.memory.words import NotLaunched
from tuner.core.trial import best_of
from tuner.errors import StudyError
from tuner.search.dimensions import Categorical
from tuner.study import StudyStore

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = StudyIdentity({"model": Part("m1", "a.gguf")})
SEEN = Observation("GPU-a", "CUDA/layer", "engine model", 1200.5, 1200.5)
OTHER = Observation("GPU-b", "CUDA/tensor/nccl", "engine model", 800.0, None)


@pytest.fixture(scope="module")
def empty_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: SQLite and Optuna's tables take most of a test's time."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    StudyStore.for_run(path, IDENTITY, {})
    return path


@pytest.fixture
def path(empty_study: Path, tmp_path: Path) -> Path:
    """A study without a trial."""
    copy = tmp_path / "study.db"
    shutil.copy(empty_study, copy)
    return copy


def measure(store: StudyStore, *rates_tok_s: float) -> None:
    """One trial a rate, with both split modes in turn."""
    for rate in rates_tok_s:
        mode = ("layer", "tensor")[len(store.records()) % 2]
        candidate = Candidate.of({"split-mode": mode})
        place = [(Categorical("split-mode", ("layer", "tensor")), mode)]
        number = store.begin(LaunchSpec(candidate), place, argv=["x"], environment={})
        store.finish(a_record(number, candidate, measured(rate)))


def again(path: Path) -> StudyStore:
    return StudyStore.for_run(path, IDENTITY, {})


# --- estimates


def test_a_trial_has_no_estimate_at_first(path: Path) -> None:
    store = StudyStore.open(path)
    measure(store, 50.0)
    assert [record.estimate_tok_s for record in store.records()] == [None]


def test_estimates_come_back_with_their_trials(path: Path) -> None:
    store = StudyStore.open(path)
    measure(store, 50.0, 60.0, 55.0)
    store.note_estimates({0: 51.5, 2: 54.25})
    for one in (store, StudyStore.open(path), again(path)):
        assert [record.estimate_tok_s for record in one.records()] == [51.5, None, 54.25]
    assert [record.score for record in store.records()] == pytest.approx([50, 60, 55])


def test_newer_estimates_take_the_place_of_all_older_ones(path: Path) -> None:
    store = StudyStore.open(path)
    measure(store, 50.0, 60.0)
    store.note_estimates({0: 51.5, 1: 59.0})
    store.note_estimates({1: 56.0})
    assert [record.estimate_tok_s for record in store.records()] == [None, 56.0]


def test_the_best_of_a_study_is_the_best_by_its_estimates(path: Path) -> None:
    store = StudyStore.open(path)
    measure(store, 60.0, 57.0)
    store.note_estimates({0: 52.0, 1: 56.0})
    best = best_of(StudyStore.open(path).records())
    assert best is not None
    assert best.number == 1


def test_a_running_trial_may_have_none(path: Path) -> None:
    store = StudyStore.open(path)
    store.begin(LaunchSpec(Candidate.of({})), [], argv=["x"], environment={})
    store.note_estimates({})
    assert [record.estimate_tok_s for record in store.records()] == [None]


def test_estimates_do_not_change_what_the_sampler_proposes(path: Path) -> None:
    store = StudyStore.open(path)
    measure(store, *range(40, 49))
    dimension = Categorical("split-mode", ("layer", "tensor"))

    def drawn() -> list[object]:
        sampler = store.sampler(3)
        return [sampler.ask().suggest(dimension) for _ in range(5)]

    before = drawn()
    store.note_estimates({number: 90.0 - number for number in range(9)})
    assert drawn() == before


# --- what was known of memory


def test_a_study_keeps_what_was_known_when_it_began(path: Path) -> None:
    assert StudyStore.open(path).memory_before((SEEN, OTHER)) == (SEEN, OTHER)
    newer = Observation("GPU-a", "CUDA/layer", "engine model", 900.0, 900.0)
    for one in (StudyStore.open(path), again(path)):
        assert one.memory_before((SEEN, OTHER, newer)) == (SEEN, OTHER)


def test_nothing_may_have_been_known(path: Path) -> None:
    assert StudyStore.open(path).memory_before(()) == ()
    assert StudyStore.open(path).memory_before((SEEN,)) == ()


# --- what was not launched


def test_what_was_not_launched_comes_back_in_order(path: Path) -> None:
    store = StudyStore.open(path)
    assert store.not_launched() == ()
    rows = [NotLaunched("b1", "CUDA0", 512), NotLaunched("a1", "CUDA1", 3)]
    store.note_not_launched(rows[:1])
    store.note_not_launched(rows)
    for one in (store, StudyStore.open(path), again(path)):
        assert one.not_launched() == tuple(rows)
    assert store.records() == []


# --- a database that cannot be written


def test_notes_that_cannot_be_written_stop_the_run_with_a_word(path: Path) -> None:
    store = StudyStore.open(path)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE study_user_attributes")
    database.close()
    said = r"cannot be written: .*Free some space or mend the disk"
    with pytest.raises(StudyError, match=said):
        store.note_estimates({0: 1.0})
    with pytest.raises(StudyError, match=said):
        store.note_not_launched([NotLaunched("b1", "CUDA0", 512)])
