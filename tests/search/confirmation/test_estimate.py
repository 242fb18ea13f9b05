"""Means with their doubt add up: the intervals hold as often as they say."""

import random
from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.confirmation.estimate import Estimate
from tuner.search.confirmation.interval import paired

LOGS = st.lists(st.floats(-1, 1), min_size=2, max_size=8)


def of(*values: float) -> Estimate:
    found = Estimate.of(values)
    assert found is not None
    return found


def test_nothing_has_no_mean_and_one_value_no_spread() -> None:
    assert Estimate.of([]) is None
    one = of(log(2))
    assert one.ratio == pytest.approx(2)
    assert one.interval(0.05) is None
    assert one.sigma is None
    assert one.of_one is None
    assert of(0.0, 0.1).plus(one).interval(0.05) is None


@given(LOGS)
def test_the_interval_of_pairs_is_the_one_of_the_confirmation(logs: list[float]) -> None:
    mine, theirs = of(*logs).interval(0.05), paired(logs, 0.05)
    assert mine is not None
    assert theirs is not None
    assert (mine.ratio, mine.low, mine.high) == pytest.approx((theirs.ratio, theirs.low, theirs.high))
    assert mine.blocks == theirs.blocks == len(logs)


@given(LOGS, LOGS)
def test_sum_and_difference_are_inverse_in_the_mean_and_never_surer(
    one: list[float], other: list[float]
) -> None:
    a, b = of(*one), of(*other)
    total = a.plus(b)
    assert total.mean - b.mean == pytest.approx(a.mean)
    assert a.minus(b).mean == pytest.approx(a.mean - b.mean)
    assert total.variance is not None
    assert a.variance is not None
    assert total.variance >= a.variance
    assert total.freedom <= len(one) + len(other) - 2


def test_spread_of_one_value_is_that_of_the_mean_times_the_root() -> None:
    one = of(0.0, 0.1, 0.2, 0.3)
    assert one.sigma is not None
    assert one.of_one == pytest.approx(one.sigma * sqrt(4))


def test_the_difference_of_two_levels_misses_as_often_as_it_says() -> None:
    """Welch's interval with unlike spreads and unlike numbers: 5 % within what 2,000 draws tell."""
    dice = random.Random(7)  # noqa: S311 - no secret
    missed = 0
    for _ in range(2000):
        a = of(*(dice.gauss(0.3, 0.01) for _ in range(3)))
        b = of(*(dice.gauss(0.0, 0.04) for _ in range(8)))
        interval = a.minus(b).interval(0.05)
        assert interval is not None
        missed += not interval.low <= exp(0.3) <= interval.high
    assert 0.03 < missed / 2000 < 0.07
