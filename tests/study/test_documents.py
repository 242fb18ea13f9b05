"""How a trial lies in a shared storage: it comes back whole, and says whether it was measured, lost or withdrawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FrozenTrial  # noqa: TID251 - what is stored is Optuna's
from optuna.trial import TrialState as State  # noqa: TID251 - as above

from tests.support.strategies import PROPERTY, candidates, launch_results, texts
from tests.support.trials import a_record, ended, measured
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchResult, LaunchSpec
from tuner.core.objective import GENERATION, Goal
from tuner.core.outcome import Kind, Outcome, TrialState
from tuner.core.trial import SEARCHING, Errand, Purpose
from tuner.study import Kept, Worker
from tuner.study.documents import (
    Stored,
    ended_document,
    late_document,
    launch_document,
    role_document,
    template,
    withdrawn_document,
)
from tuner.study.rows import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.candidate import Candidate

WORKER = Worker("w1", "rig-1")
REFERENCE = LaunchSpec(None, ENGINE_DEFAULT)
errands = st.just(SEARCHING) | st.builds(
    Errand, st.sampled_from(Purpose), st.integers(0, 9), st.integers(0, 9)
)


def document_of(spec: LaunchSpec = REFERENCE, errand: Errand = SEARCHING) -> dict[str, Any]:
    return launch_document(
        spec, WORKER, "token", argv=["llama-server"], environment={}, errand=errand, now_s=1.0
    )


def stored(document: Mapping[str, Any], state: State, number: int = 3) -> Stored:
    """As the storage gives it back."""
    trial: FrozenTrial = template(state, document, 1.0 if state is State.COMPLETE else None)
    trial.number, trial._trial_id = number, number + 100
    return Stored(trial)


def result_of(result: LaunchResult) -> dict[str, Any]:
    return ended_document(
        document_of(), a_record(3, None, result, reference=ENGINE_DEFAULT), Kept(), now_s=13.5
    )


# --- round trips


@PROPERTY
@given(
    candidates,
    launch_results,
    errands,
    st.tuples(st.lists(texts, max_size=4), st.dictionaries(texts, texts, max_size=3)),
    st.dictionaries(texts, st.dictionaries(texts, st.floats(0, 1e6), max_size=3), max_size=3),
)
def test_a_record_comes_back_whole_but_for_what_was_answered(
    candidate: Candidate,
    result: LaunchResult,
    errand: Errand,
    command: tuple[list[str], dict[str, str]],
    needs: dict[str, dict[str, float]],
) -> None:
    argv, environment = command
    spec = LaunchSpec(candidate)
    begun = launch_document(
        spec, WORKER, "token", argv=argv, environment=environment, errand=errand, now_s=1.0
    )
    record = replace(
        a_record(3, candidate, None, errand=errand),
        argv=tuple(argv),
        environment=environment,
        worker="w1",
        wall_s=0.0,
    )
    assert stored(begun, State.RUNNING).record(GENERATION) == record
    made = replace(record, result=result, wall_s=12.5)
    assert made.state is not None
    one = stored(ended_document(begun, made, Kept("the log", needs), now_s=13.5), STATES[made.state])
    assert one.record(GENERATION) == replace(made, result=result.without_text())
    assert one.kept() == Kept("the log", needs)
    assert (one.worker, one.token, one.number, one.id) == (WORKER, "token", 3, 103)
    assert (one.is_launch, one.has_result, one.is_lost, one.late_for) == (True, True, False, None)
    assert one.clock == (1.0, 13.5)


@PROPERTY
@given(candidates, candidates)
def test_the_parameter_is_equal_for_equal_launches_alone(one: Candidate, other: Candidate) -> None:
    numbers = [
        template(State.RUNNING, document_of(LaunchSpec(candidate))).params for candidate in (one, other)
    ]
    assert (numbers[0] == numbers[1]) == (one.key() == other.key())


def test_references_have_parameters_of_their_own() -> None:
    specs = (LaunchSpec(None, ENGINE_DEFAULT), LaunchSpec(None, CURRENT))
    assert len({template(State.RUNNING, document_of(spec)).params["candidate"] for spec in specs}) == 2


# --- what a trial is


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("state", [State.COMPLETE, State.PRUNED, State.FAIL])
def test_a_result_counts_where_the_state_is_its_own(kind: Kind, state: State) -> None:
    """Given up is failed: a result that was written just before, of a trial that had not failed, is lost."""
    one = stored(result_of(ended(kind)), state)
    fails = Outcome(kind).policy.state is TrialState.FAIL
    assert one.has_result == (fails == (state is State.FAIL))
    assert one.is_lost == (not one.has_result)


def test_a_complete_result_of_a_trial_that_was_given_up_is_lost_and_not_measured() -> None:
    one = stored(result_of(measured(50.0)), State.FAIL)
    assert (one.has_result, one.is_lost) == (False, True)
    record = one.record(GENERATION)
    assert (record.score, record.wall_s) == (None, 0.0)
    assert record.outcome == Outcome(
        Kind.STOPPED, evidence="nothing was heard of its worker any more (rig-1)"
    )


@pytest.mark.parametrize("state", [State.COMPLETE, State.PRUNED])
def test_what_was_measured_is_not_lost_whatever_the_goal_makes_of_it(state: State) -> None:
    """A goal of classes of prompts of which one was not answered has no rate: the trial is pruned."""
    one = stored(result_of(measured(50.0)), state)
    assert (one.has_result, one.is_lost) == (True, False)
    assert one.record(GENERATION).score == pytest.approx(50.0)
    assert one.record(Goal(weights={"prose": 1.0})).score is None


def test_a_result_of_a_trial_that_still_runs_does_not_count_yet() -> None:
    one = stored(result_of(measured(50.0)), State.RUNNING)
    assert (one.runs, one.has_result, one.is_lost) == (True, False, False)
    assert one.record(GENERATION).result is None


def test_a_withdrawn_launch_is_no_launch() -> None:
    one = stored(withdrawn_document(document_of()), State.FAIL)
    assert (one.is_launch, one.is_lost, one.role) == (False, False, None)


def test_a_role_is_no_launch_and_has_no_parameter() -> None:
    one = stored(role_document("proving", WORKER, "token"), State.RUNNING)
    assert (one.role, one.is_launch, one.worker, one.trial.params) == ("proving", False, WORKER, {})


def test_a_late_result_says_whose_it_is() -> None:
    one = stored(late_document(result_of(measured(50.0)), 3), State.COMPLETE, number=9)
    assert (one.late_for, one.number, one.is_launch, one.is_lost) == (3, 9, True, False)
    assert one.record(GENERATION).score == pytest.approx(50.0)


def test_a_trial_that_none_of_ours_wrote_is_no_launch() -> None:
    trial = template(State.RUNNING, document_of())
    trial.user_attrs = {}
    one = Stored(trial)
    assert (one.is_launch, one.is_lost, one.role, one.token, one.late_for) == (False, False, None, None, None)
    assert one.worker == Worker("", "")
