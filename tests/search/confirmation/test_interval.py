"""The interval of a ratio from launches side by side."""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, isclose, log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.strategies import PROPERTY
from tuner.search.confirmation.interval import Interval, paired, t_quantile, unpaired

LOGS = st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=20)


def interval(low: float, high: float) -> Interval:
    return Interval(ratio=(low * high) ** 0.5, low=low, high=high, blocks=4, alpha=0.05)


def test_three_pairs_by_hand() -> None:
    """Mean 0.02, standard deviation 0.01; t with 2 degrees of freedom passes 4.302653 in 2.5 %."""
    found = paired([0.01, 0.02, 0.03], 0.05)
    assert found is not None
    assert found.ratio == pytest.approx(exp(0.02))
    assert found.low == pytest.approx(exp(0.02 - 4.302653 * 0.01 / 3**0.5), rel=1e-8)
    assert found.high == pytest.approx(exp(0.02 + 4.302653 * 0.01 / 3**0.5), rel=1e-8)
    assert (found.blocks, found.alpha, found.significant) == (3, 0.05, False)


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.0125, 0.05 / 48])
@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30])
def test_quantiles_are_those_of_scipy(alpha: float, freedom: int) -> None:
    assert t_quantile(alpha, freedom) == pytest.approx(stats.t.ppf(1 - alpha / 2, freedom))


def test_a_whole_interval_is_that_of_scipy() -> None:
    logs = [0.031, 0.012, -0.004, 0.027, 0.018]
    found = paired(logs, 0.01)
    expected = stats.ttest_1samp(logs, 0).confidence_interval(0.99)
    assert found is not None
    assert (log(found.low), log(found.high)) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("logs", [[], [0.1]])
def test_fewer_than_two_pairs_say_nothing(logs: list[float]) -> None:
    assert paired(logs, 0.05) is None


def test_launches_that_agree_give_a_point() -> None:
    assert paired([0.0, 0.0, 0.0], 0.05) == Interval(ratio=1, low=1, high=1, blocks=3, alpha=0.05)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.05, 1.5, nan, inf])
def test_an_alpha_outside_of_0_and_1_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="not between 0 and 1"):
        paired([0.0, 0.1], alpha)


def test_it_is_significant_without_1() -> None:
    assert interval(1.001, 1.05).significant
    assert interval(0.9, 0.999).significant
    assert not interval(0.99, 1.01).significant
    assert not interval(1.0, 1.05).significant


def test_close_is_all_of_it_within_what_is_worth_while() -> None:
    assert interval(0.99, 1.01).within(0.02)
    assert interval(1 / 1.02, 1.02).within(0.02)
    assert not interval(0.99, 1.021).within(0.02)
    assert not interval(0.98, 1.01).within(0.02)


@given(LOGS, st.floats(0.001, 0.5))
def test_the_other_way_round_it_is_the_inverse(logs: list[float], alpha: float) -> None:
    own, other = paired(logs, alpha), paired([-value for value in logs], alpha)
    assert own is not None
    assert other is not None
    assert isclose(own.ratio * other.ratio, 1, rel_tol=1e-9)
    assert isclose(own.low * other.high, 1, rel_tol=1e-9)
    assert 0 < own.low <= own.ratio <= own.high


@given(LOGS)
def test_the_less_it_may_err_the_wider_it_is(logs: list[float]) -> None:
    found = [paired(logs, alpha) for alpha in (0.1, 0.05, 0.01)]
    for narrow, wide in pairwise(found):
        assert narrow is not None
        assert wide is not None
        assert wide.low <= narrow.low
        assert narrow.high <= wide.high


# --- launches that were not made side by side


@PROPERTY
@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=9),
    st.lists(st.floats(-1, 1), min_size=2, max_size=9),
    st.sampled_from([0.01, 0.05, 0.3]),
)
def test_an_unpaired_interval_is_welchs(one: list[float], other: list[float], alpha: float) -> None:
    found = unpaired(one, other, alpha)
    assert found is not None
    if max(one) - min(one) < 1e-3 or max(other) - min(other) < 1e-3:
        return  # SciPy warns where there is no spread
    theirs = stats.ttest_ind(one, other, equal_var=False).confidence_interval(1 - alpha)
    assert log(found.low) == pytest.approx(theirs.low, abs=1e-9)
    assert log(found.high) == pytest.approx(theirs.high, abs=1e-9)
    assert found.blocks == min(len(one), len(other))


def test_an_unpaired_interval_needs_two_launches_a_side() -> None:
    assert unpaired([1.0], [1.0, 2.0], 0.05) is None
    assert unpaired([1.0, 2.0], [], 0.05) is None
    same = unpaired([0.0, 0.0], [0.0, 0.0], 0.05)
    assert same is not None
    assert (same.low, same.ratio, same.high) == (1, 1, 1)
