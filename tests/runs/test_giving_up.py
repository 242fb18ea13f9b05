"""When the next trial has no chance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT, LaunchResult
from tuner.core.outcome import LOST_DEVICE, POLICIES, RIG_FAILURES, Kind, Outcome
from tuner.errors import EngineError, RigError
from tuner.runs.giving_up import give_up_if_hopeless

if TYPE_CHECKING:
    from tuner.core.trial import TrialRecord

FOLDER = Path("/results/mine")
BROKEN = [kind for kind in Kind if POLICIES[kind].ends_run]


def trials(*results: LaunchResult | Kind, references: int = 0) -> list[TrialRecord]:
    """Trials that ended so, the first of them of references."""
    return [
        a_record(
            number,
            None if number < references else Candidate.of({"ubatch-size": 2**number}),
            ended(result) if isinstance(result, Kind) else result,
            reference=ENGINE_DEFAULT if number < references else None,
        )
        for number, result in enumerate(results)
    ]


def judge(*results: LaunchResult | Kind, references: int = 0) -> None:
    give_up_if_hopeless(trials(*results, references=references), FOLDER)


# --- an engine that is broken


@pytest.mark.parametrize("kind", BROKEN)
def test_candidate_that_no_other_could_do_better_ends_the_run(kind: Kind) -> None:
    with pytest.raises(EngineError) as caught:
        judge(measured(50.0), kind)
    assert str(caught.value) == (
        f"trial 1: {kind}: a line about {kind} (see /results/mine/trials/1/server.log)"
    )


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in BROKEN])
def test_candidate_that_fails_for_itself_ends_nothing(kind: Kind) -> None:
    judge(measured(50.0), kind)


@pytest.mark.parametrize("kind", list(Kind))
def test_reference_that_fails_never_ends_the_run_alone(kind: Kind) -> None:
    judge(kind, references=1)
    judge(kind, kind, references=2)


def test_trial_that_runs_is_not_judged() -> None:
    give_up_if_hopeless([a_record(0, Candidate.of({}), None)], FOLDER)


# --- a rig that needs its owner


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        ((Kind.HUNG,) * 3, "hung"),
        ((Kind.DEVICE_ERROR,) * 3, "device-error"),
        ((Kind.HUNG, Kind.DEVICE_ERROR, Kind.HUNG), "device-error and hung"),
    ],
)
@pytest.mark.parametrize("references", [0, 2])
def test_three_failures_of_the_rig_in_a_row_end_the_run(
    kinds: tuple[Kind, ...], named: str, references: int
) -> None:
    judge(measured(50.0), *kinds[:2])
    with pytest.raises(RigError) as caught:
        judge(measured(50.0), *kinds, references=references)
    said = str(caught.value)
    assert said.startswith(f"3 launches in a row ended with {named}, the last: a line about {kinds[-1]}. ")
    assert "run the same command again: nothing is lost" in said


@pytest.mark.parametrize(
    "between", [kind for kind in Kind if kind not in RIG_FAILURES and kind not in BROKEN]
)
def test_failures_with_another_end_between_them_are_not_in_a_row(between: Kind) -> None:
    judge(Kind.HUNG, Kind.HUNG, between, Kind.HUNG, Kind.DEVICE_ERROR)


def test_trial_that_was_cut_off_breaks_the_row() -> None:
    records = trials(Kind.HUNG, Kind.HUNG, Kind.HUNG)
    records[1] = a_record(1, Candidate.of({}), None)
    give_up_if_hopeless(records, FOLDER)


@pytest.mark.parametrize("sign", LOST_DEVICE)
@pytest.mark.parametrize("references", [0, 1])
def test_a_lost_card_ends_the_run_at_once(sign: str, references: int) -> None:
    evidence = f"CUDA error: {sign}."
    with pytest.raises(RigError) as caught:
        judge(LaunchResult(Outcome(Kind.DEVICE_ERROR, evidence=evidence)), references=references)
    said = str(caught.value)
    assert said.startswith(f"trial 0: a card is gone: {evidence}")
    assert "restart of the machine" in said


def test_words_of_a_lost_card_in_another_outcome_are_only_words() -> None:
    judge(LaunchResult(Outcome(Kind.CRASHED, evidence="GPU is lost")))
