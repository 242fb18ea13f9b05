"""Trials as decisions are made from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT, LaunchResult
from tuner.core.outcome import Kind, TrialState
from tuner.core.trial import Errand, Purpose, best_of, disqualified, searched

if TYPE_CHECKING:
    from tuner.core.trial import TrialRecord

CANDIDATE = Candidate.of({"ubatch-size": 512})


def test_a_measured_trial_has_a_score_and_may_win() -> None:
    record = a_record(3, CANDIDATE, measured(50.0))
    assert record.score == pytest.approx(50.0)
    assert record.may_win
    assert record.state is TrialState.COMPLETE


def test_a_running_trial_has_nothing() -> None:
    record = a_record(0, CANDIDATE, None)
    assert (record.outcome, record.rates, record.score, record.state) == (None, None, None, None)
    assert not record.may_win


def test_a_degraded_trial_has_a_score_but_cannot_win() -> None:
    record = a_record(0, CANDIDATE, measured(500.0, Kind.DEGRADED))
    assert record.score == pytest.approx(500.0)
    assert (record.may_win, record.state) == (False, TrialState.COMPLETE)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in {Kind.NONE, Kind.DEGRADED}])
def test_samples_of_an_outcome_that_does_not_count_are_no_score(kind: Kind) -> None:
    result = replace(ended(kind), samples=measured(50.0).samples)
    record = a_record(0, CANDIDATE, result)
    assert (record.rates, record.score, record.may_win) == (None, None, False)
    assert record.state is result.outcome.policy.state


def test_a_measured_trial_without_a_token_is_pruned() -> None:
    record = a_record(0, CANDIDATE, LaunchResult(measured(1.0).outcome))
    assert (record.score, record.may_win, record.state) == (None, False, TrialState.PRUNED)


def test_keys_tell_candidates_and_references_apart() -> None:
    assert a_record(0, CANDIDATE, None).key == a_record(7, CANDIDATE, measured(1.0)).key == CANDIDATE.key()
    assert a_record(0, None, None, reference=ENGINE_DEFAULT).key == "reference:engine-default"


def test_the_best_is_the_fastest_that_may_win() -> None:
    records = [
        a_record(0, CANDIDATE, measured(40.0)),
        a_record(1, CANDIDATE, ended(Kind.OUT_OF_MEMORY)),
        a_record(2, CANDIDATE, measured(60.0)),
        a_record(3, CANDIDATE, measured(90.0, Kind.DEGRADED)),
        a_record(4, CANDIDATE, None),
    ]
    best = best_of(records)
    assert best is not None
    assert best.number == 2


def test_the_earlier_of_equals_is_the_best() -> None:
    records = [a_record(number, CANDIDATE, measured(40.0)) for number in (5, 2, 9)]
    best = best_of(records)
    assert best is not None
    assert best.number == 2


def test_there_is_no_best_where_nothing_was_measured() -> None:
    assert best_of([]) is None
    assert best_of([a_record(0, CANDIDATE, ended(Kind.CRASHED))]) is None


@PROPERTY
@given(st.lists(st.floats(1, 1000), min_size=1))
def test_nothing_is_faster_than_the_best(speeds: list[float]) -> None:
    records = [a_record(number, CANDIDATE, measured(speed)) for number, speed in enumerate(speeds)]
    best = best_of(records)
    assert best is not None
    assert all((record.score or 0.0) <= (best.score or 0.0) for record in records)


# --- what all trials together say of one


def estimated(number: int, tok_s: float, estimate_tok_s: float | None, kind: Kind = Kind.NONE) -> TrialRecord:
    return replace(a_record(number, CANDIDATE, measured(tok_s, kind)), estimate_tok_s=estimate_tok_s)


def test_a_trial_is_worth_its_estimate_and_else_its_score() -> None:
    assert estimated(0, 50.0, 47.0).worth == 47.0
    assert estimated(0, 50.0, None).worth == pytest.approx(50.0)
    assert a_record(0, CANDIDATE, ended(Kind.CRASHED)).worth == 0.0
    assert a_record(0, CANDIDATE, None).worth == 0.0


def test_an_estimate_changes_no_score() -> None:
    assert estimated(0, 50.0, 47.0).score == pytest.approx(50.0)


def test_one_lucky_measurement_does_not_win() -> None:
    best = best_of([estimated(0, 60.0, 52.0), estimated(1, 55.0, 54.0), estimated(2, 54.0, None)])
    assert best is not None
    assert best.number == 1


def test_the_earlier_of_equal_estimates_is_the_best() -> None:
    best = best_of([estimated(4, 60.0, 52.0), estimated(1, 50.0, 52.0)])
    assert best is not None
    assert best.number == 1


def test_an_estimate_does_not_let_win_what_may_not() -> None:
    given_up = replace(a_record(1, CANDIDATE, ended(Kind.PRUNED)), estimate_tok_s=90.0)
    records = [estimated(0, 40.0, 41.0), given_up, estimated(2, 95.0, 95.0, Kind.DEGRADED)]
    best = best_of(records)
    assert best is not None
    assert best.number == 0
    assert best_of(records[1:]) is None


# --- what a launch was made for


OTHER = Candidate.of({"ubatch-size": 1024})


def test_a_trial_was_searched_unless_it_says_otherwise() -> None:
    record = a_record(0, CANDIDATE, measured(40.0))
    assert record.errand == Errand(Purpose.SEARCH, 0, 0)
    assert searched([record]) == [record]


@pytest.mark.parametrize("purpose", [Purpose.CONFIRM, Purpose.SOAK, Purpose.ENDURE])
def test_only_what_was_searched_can_be_the_best(purpose: Purpose) -> None:
    errand = Errand(purpose, 1, 2)
    records = [
        a_record(0, CANDIDATE, measured(40.0)),
        a_record(1, CANDIDATE, measured(60.0), errand=errand),
        a_record(2, OTHER, measured(42.0)),
        a_record(3, OTHER, None, errand=errand),
    ]
    assert [record.number for record in searched(records)] == [0, 2]
    best = best_of(records)
    assert best is not None
    assert best.number == 2
    assert best_of([records[1], records[3]]) is None


def test_a_confirmation_that_fails_takes_nothing_from_the_search() -> None:
    failed = a_record(1, CANDIDATE, ended(Kind.CRASHED), errand=Errand(Purpose.CONFIRM, 1))
    best = best_of([a_record(0, CANDIDATE, measured(40.0)), failed])
    assert best is not None
    assert best.number == 0
    assert disqualified([failed]) == {}


@pytest.mark.parametrize("purpose", [Purpose.SOAK, Purpose.ENDURE])
def test_who_does_not_survive_a_soak_is_not_the_best(purpose: Purpose) -> None:
    records = [
        a_record(0, CANDIDATE, measured(60.0)),
        a_record(1, OTHER, measured(40.0)),
        a_record(2, CANDIDATE, ended(Kind.CRASHED), errand=Errand(purpose, 1)),
    ]
    assert disqualified(records) == {CANDIDATE.key(): "crashed: a line about crashed"}
    best = best_of(records)
    assert best is not None
    assert best.number == 1
    assert best_of([records[0], records[2]]) is None


@pytest.mark.parametrize("kind", [Kind.NONE, Kind.STOPPED, Kind.DISTURBED, Kind.DEVICE_ERROR, None])
def test_a_soak_that_ended_by_no_fault_of_its_own_says_nothing(kind: Kind | None) -> None:
    result = None if kind is None else measured(40.0, kind) if kind is Kind.NONE else ended(kind)
    assert disqualified([a_record(2, CANDIDATE, result, errand=Errand(Purpose.SOAK, 1))]) == {}


def test_a_soak_that_an_rpc_server_did_not_survive_disqualifies() -> None:
    lost = a_record(1, CANDIDATE, ended(Kind.RPC_LOST), errand=Errand(Purpose.SOAK, 1))
    assert list(disqualified([lost])) == [CANDIDATE.key()]
    assert disqualified([replace(lost, errand=Errand(Purpose.CONFIRM, 1))]) == {}
