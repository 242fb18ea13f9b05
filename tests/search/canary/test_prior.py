"""Trials of before are believed as far as the canary says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.canary.test_causes import DEFAULT, LAYER, LAYER_MTP, TENSOR, TENSOR_MTP, seen
from tests.support.played_search import trials
from tests.support.trials import a_record, ended, measured
from tuner.core.outcome import Kind
from tuner.search.canary.prior import Trust, faster, prior_of


def test_where_all_changed_alike_everything_is_believed_at_that_factor() -> None:
    trust = Trust.of(seen(TENSOR_MTP, 1.1), [seen(DEFAULT, 1.12), seen(LAYER, 1.09)])
    assert trust.is_whole
    for one in (TENSOR, LAYER_MTP):
        assert trust.factor(one) == pytest.approx(1.103, abs=0.001)


def test_a_noisy_launch_does_not_break_the_trust() -> None:
    assert Trust.of(seen(TENSOR_MTP, 1.0, 0.05), [seen(DEFAULT, 1.12, 0.05)]).is_whole
    assert not Trust.of(seen(TENSOR_MTP, 1.0, 0.005), [seen(DEFAULT, 1.12, 0.005)]).is_whole


def test_what_is_suspected_has_a_factor_of_its_own_and_a_part_of_it_says_nothing() -> None:
    trust = Trust.of(seen(TENSOR_MTP, 0.7), [seen(DEFAULT, 1.0), seen(LAYER, 1.02)])
    assert not trust.is_whole
    assert trust.suspected == {"split-mode tensor", "spec-type draft-mtp"}
    assert trust.factor(TENSOR_MTP) == pytest.approx(0.7)
    assert trust.factor(LAYER) == pytest.approx(1.01, abs=0.001)
    assert trust.factor(TENSOR) is None
    assert trust.factor(LAYER_MTP) is None


def test_believed_trials_are_as_if_made_now() -> None:
    candidates = (TENSOR_MTP, TENSOR, LAYER, LAYER_MTP)
    records = [*trials(candidates), a_record(9, None, measured(30.0), reference="engine-default")]
    trust = Trust.of(seen(TENSOR_MTP, 0.7), [seen(LAYER_MTP, 1.0)])
    prior = prior_of(records, trust)
    assert [one.candidate for one in prior] == list(candidates)
    for before, now in zip(records, prior, strict=False):
        assert before.score is not None
        factor = 0.7 if before.candidate in {TENSOR_MTP, TENSOR} else 1.0
        assert now.score == pytest.approx(before.score * factor)


def test_what_failed_before_stays_a_failure() -> None:
    (one,) = prior_of([a_record(0, TENSOR, ended(Kind.CRASHED))], Trust(frozenset(), 1.1, 1.1))
    assert one.score is None


@given(st.floats(0.2, 5.0))
def test_faster_is_undone_by_its_inverse(factor: float) -> None:
    (record,) = trials([LAYER_MTP])
    back = faster(faster(record, factor), 1 / factor)
    assert record.score is not None
    assert faster(record, factor).score == pytest.approx(record.score * factor)
    assert back.score == pytest.approx(record.score)
