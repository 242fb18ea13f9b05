"""A whole run and its search: what is given up early, when it ends by itself, and what a resumed one proposes."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.played_rigs import simulated
from tests.support.played_run import DEFAULT, IDENTITY, PlayedRun, candidate
from tests.support.played_search import RIG, TASK
from tests.support.trials import a_sample
from tests.support.tuner_command import kinds
from tuner.core.launch import LaunchResult
from tuner.core.memory.learned import Observation
from tuner.core.outcome import Kind, Outcome
from tuner.simulate.launcher import SimulatedRig
from tuner.study import StudyStore

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.core.launch import LaunchSpec

ONE, OTHER, THIRD = (candidate(size).key() for size in (128, 256, 64))


@pytest.fixture(scope="module")
def empty_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: SQLite and Optuna's tables take most of a test's time."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    StudyStore.for_run(path, IDENTITY, {})
    return path


@pytest.fixture
def run(tmp_path: Path, empty_study: Path) -> PlayedRun:
    shutil.copy(empty_study, tmp_path / "study.db")
    return PlayedRun(tmp_path)


# --- what is given up


def answers(*rates_tok_s: float) -> LaunchResult:
    """One answer a prompt of the workload, which has two."""
    return LaunchResult(
        Outcome(),
        samples=tuple(
            a_sample(prompt_id=name, predicted_ms=100 / rate * 1000)
            for name, rate in zip(("one", "two"), rates_tok_s, strict=True)
        ),
    )


def test_candidate_that_is_clearly_slower_is_told_so_after_its_first_answer(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, answers(100, 60))
    run.launcher.comes_to(OTHER, answers(50, 30))
    run.go(3, starts=(128, 256, 64))
    first, second, third = run.store.records()
    assert kinds([first, second]) == [Kind.NONE, Kind.PRUNED]
    assert second.outcome is not None
    assert second.outcome.evidence == "50% of the best after 1 of 2 requests"
    assert second.result is not None
    assert [sample.prompt_id for sample in second.result.samples] == ["one"]
    assert (second.score, second.may_win) == (None, False)
    assert third.key == THIRD  # what was given up does not come again
    assert [sample.prompt_id for sample in run.progress.samples][:3] == ["one", "two", "one"]


def test_candidate_that_may_catch_up_is_measured_to_the_end(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, answers(100, 60))
    run.launcher.comes_to(OTHER, answers(95, 70))
    run.go(2, starts=(128, 256))
    assert kinds(run.store.records()) == [Kind.NONE, Kind.NONE]


def test_first_candidate_is_compared_with_nothing(run: PlayedRun) -> None:
    """A reference may be much faster: it is not what candidates are chosen from."""
    run.launcher.comes_to(DEFAULT.key, answers(100, 100))
    run.launcher.comes_to(ONE, answers(10, 10))
    run.go(2, references=(DEFAULT,), starts=(128,))
    assert kinds(run.store.records()) == [Kind.NONE, Kind.NONE]


def test_reference_is_never_given_up(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, answers(100, 100))
    run.go(1, starts=(128,))
    run.launcher.comes_to(DEFAULT.key, answers(10, 10))
    run.go(2, references=(DEFAULT,), starts=(128,))
    assert kinds(run.store.records()) == [Kind.NONE, Kind.NONE]


def test_the_best_is_what_others_are_compared_with(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, answers(50, 50))
    run.launcher.comes_to(OTHER, answers(100, 100))
    run.launcher.comes_to(THIRD, answers(60, 60))
    run.go(3, starts=(128, 256, 64))
    assert kinds(run.store.records()) == [Kind.NONE, Kind.NONE, Kind.PRUNED]


# --- a rig that a search is played on


def played(folder: Path, empty_study: Path, known: tuple[Observation, ...] = ()) -> PlayedRun:
    """Noise is the same for the same candidate, so that a resumed run meets what a whole one would."""
    folder.mkdir()
    shutil.copy(empty_study, folder / "study.db")
    run = PlayedRun(folder, bound=TASK.bound, devices=TASK.devices, known=known)

    rig = SimulatedRig(simulated(RIG).rig)  # of its own: the first launch on a rig is unlike the others

    def plays(spec: LaunchSpec) -> LaunchResult:
        return rig.launch(spec.candidate, random.Random(spec.key))  # noqa: S311 - no secret

    run.launcher.plays = plays
    return run


def test_run_ends_where_an_improvement_that_is_worth_it_is_unlikely(
    tmp_path: Path, empty_study: Path
) -> None:
    run = played(tmp_path / "study", empty_study)
    ending = run.go(40, references=(DEFAULT,), worthwhile=0.3)
    assert ending.why.startswith("an improvement of 30.0% is unlikely now")
    assert not ending.interrupted
    launches = len(run.launched)
    assert 12 < launches < 40
    again = run.go(40, references=(DEFAULT,), worthwhile=0.3)
    assert (again.why, len(run.launched)) == (ending.why, launches)
    # and goes on where any improvement is worth it
    assert run.go(launches + 1, references=(DEFAULT,)).why == f"all {launches + 1} launches are made"
    assert len(run.launched) == launches + 1


def test_estimates_of_all_trials_are_kept(tmp_path: Path, empty_study: Path) -> None:
    run = played(tmp_path / "study", empty_study)
    run.go(5, references=(DEFAULT,))
    records = run.store.records()
    assert records[0].estimate_tok_s is None
    measured = [record for record in records if record.candidate is not None and record.may_win]
    assert len(measured) > 2
    for record in measured:
        assert record.estimate_tok_s == pytest.approx(record.score, rel=0.15)
    run.store.note_estimates({})  # as if its tuner had been killed before it came to it
    run.go(5, references=(DEFAULT,))
    assert run.store.records() == records


SEEN = tuple(
    Observation(device.identity, "CUDA/tensor/drafts/nccl", "e1/m1", unnamed, unnamed)
    for device, unnamed in zip(TASK.devices, (1500.0, 900.0), strict=True)
)
NEWER = tuple(replace(one, low_mib=20_000.0, high_mib=20_000.0) for one in SEEN)


def test_resumed_run_launches_what_a_whole_one_would(tmp_path: Path, empty_study: Path) -> None:
    whole, parts = (played(tmp_path / name, empty_study, SEEN) for name in ("whole", "parts"))
    whole.go(6, references=(DEFAULT,))
    for stop in (1, 3, 6):
        parts.go(stop, references=(DEFAULT,))
        parts.known = NEWER  # the rig's file learns from other studies meanwhile
        parts.store = StudyStore.open(parts.folder / "study.db")
    assert parts.launched == whole.launched
    assert [one.estimate_tok_s for one in parts.store.records()] == pytest.approx(
        [one.estimate_tok_s for one in whole.store.records()]
    )
    assert parts.store.not_launched() == whole.store.not_launched()
    assert [why for _, _, why in parts.progress.begun] == [why for _, _, why in whole.progress.begun]


def test_what_was_known_of_memory_decides_what_is_launched(tmp_path: Path, empty_study: Path) -> None:
    """Otherwise the test above would show nothing of it."""
    usual, full = (
        played(tmp_path / name, empty_study, known) for name, known in (("usual", SEEN), ("full", NEWER))
    )
    usual.go(3, references=(DEFAULT,))
    full.go(3, references=(DEFAULT,))
    assert usual.launched != full.launched
