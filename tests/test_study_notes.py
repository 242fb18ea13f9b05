"""What a study keeps beside its trials: estimates, what was not launched, and what was known of memory."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import LaunchSpec
from tuner.core.memory.learned import Observation
from tuner.core.memory.words import NotLaunched
from tuner.core.outcome import Kind
from tuner.core.trial import SEARCHING, Errand, Purpose, best_of, searched
from tuner.errors import StudyError
from tuner.search.confirmation.state import Confirmation
from tuner.search.confirmation.verdict import Plan
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


def confirm(store: StudyStore, errand: Errand, rate_tok_s: float | None) -> int:
    """One launch of a candidate in its place, for something else than the search; without a rate it crashes."""
    candidate = Candidate.of({"split-mode": "layer"})
    place = [(Categorical("split-mode", ("layer", "tensor")), "layer")]
    number = store.begin(LaunchSpec(candidate), place, argv=["x"], environment={}, errand=errand)
    result = ended(Kind.CRASHED) if rate_tok_s is None else measured(rate_tok_s)
    store.finish(a_record(number, candidate, result, errand=errand))
    return number


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


# --- what a launch was made for


def test_a_trial_comes_back_with_its_errand(path: Path) -> None:
    store = StudyStore.open(path)
    errands = [SEARCHING, *(Errand(purpose, 2, 7) for purpose in Purpose), Errand(Purpose.CONFIRM, 1, 0)]
    for errand in errands:
        confirm(store, errand, 50.0)
    store.begin(LaunchSpec(None, "current"), [], argv=["x"], environment={}, errand=errands[-1])
    for one in (store, StudyStore.open(path), again(path)):
        assert [record.errand for record in one.records()] == [*errands, errands[-1]]


def test_trials_of_a_study_that_was_written_before_were_searched(path: Path) -> None:
    store = StudyStore.open(path)
    measure(store, 50.0)
    confirm(store, Errand(Purpose.CONFIRM, 1, 0), 50.0)
    with sqlite3.connect(path) as database:
        kept = database.execute("SELECT count(*) FROM trial_user_attributes WHERE key = 'errand'").fetchone()
        assert kept == (1,)  # nothing more is written for the search than before
        database.execute("DELETE FROM trial_user_attributes WHERE key = 'errand'")
    database.close()
    assert [record.errand for record in StudyStore.open(path).records()] == [SEARCHING, SEARCHING]


def test_the_best_of_a_study_was_searched(path: Path) -> None:
    store = StudyStore.open(path)
    measure(store, 50.0, 52.0)
    confirm(store, Errand(Purpose.CONFIRM, 1, 0), 60.0)
    records = StudyStore.open(path).records()
    best = best_of(records)
    assert best is not None
    assert best.number == 1
    assert len(searched(records)) == 2


def test_what_is_confirmed_does_not_change_what_the_sampler_proposes(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "study.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    plain, confirmed = StudyStore.open(path), StudyStore.open(copy)
    dimension = Categorical("split-mode", ("layer", "tensor"))

    def drawn(store: StudyStore) -> list[object]:
        sampler = store.sampler(3)
        return [sampler.ask().suggest(dimension) for _ in range(8)]

    for block, rate in enumerate((40.0, 44.0, 41.0, 45.0, 39.0, 47.0, 43.0, 48.0, 42.0, 46.0)):
        measure(plain, rate)
        number = confirmed.begin(
            LaunchSpec(plain.records()[-1].candidate),
            [(dimension, ("layer", "tensor")[block % 2])],
            argv=["x"],
            environment={},
        )
        confirmed.finish(a_record(number, plain.records()[-1].candidate, measured(rate)))
        confirm(confirmed, Errand(Purpose.CONFIRM, 1, block), 90.0 if block % 3 else None)
        assert drawn(confirmed) == drawn(plain)
    confirm(confirmed, Errand(Purpose.SOAK, 1), None)
    confirm(confirmed, Errand(Purpose.ENDURE, 1), 10.0)
    assert drawn(confirmed) == drawn(plain)
    assert len(confirmed.records()) == 22


# --- where a confirmation stands


def test_a_study_has_no_confirmation_at_first(path: Path) -> None:
    for one in (StudyStore.open(path), again(path)):
        assert one.confirmation() is None


def test_a_confirmation_comes_back_and_a_newer_one_takes_its_place(path: Path) -> None:
    keys = [Candidate.of({"split-mode": mode}).key() for mode in ("layer", "tensor")]
    begun = Confirmation(1, Plan(tuple(keys), ("reference:current",), 8, 0.02), (3600.5, None))
    later = Confirmation(
        2, Plan(tuple(keys[:1]), (), 4, 0.0), (None, 30), {keys[0]: "crashed"}, over_at=3, ended=True
    )
    store = StudyStore.open(path)
    for confirmation in (begun, later):
        store.note_confirmation(confirmation)
        for one in (store, StudyStore.open(path), again(path)):
            assert one.confirmation() == confirmation
    assert store.records() == []


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
    with pytest.raises(StudyError, match=said):
        store.note_confirmation(Confirmation(1, Plan(("a",), (), 2, 0.0), (None, None)))
