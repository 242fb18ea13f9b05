"""Drift over a confirmation, and launches that stand out."""

from __future__ import annotations

import random
from math import exp, log

import pytest
from scipy import stats

from tuner.search.confirmation.steadiness import drift, outliers
from tuner.search.confirmation.verdict import Score, order_of

ARMS = {"a": 40.0, "b": 30.0, "c": 35.0}


def launches(
    blocks: int, *, arms: dict[str, float] = ARMS, loss: float = 0.0, noise: float = 0.0, seed: int = 1
) -> list[Score]:
    """Launches in ABBA order that lose so much, in log units, from one to the next."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    scores: list[Score] = []
    for block in range(blocks):
        for arm in order_of(tuple(arms), block):
            order = len(scores)
            rate = arms[arm] * exp(-loss * order + rng.gauss(0, noise))
            scores.append(Score(arm, block, order, rate))
    return scores


def but(scores: list[Score], factors: dict[int, float]) -> list[Score]:
    """The same with some launches faster or slower."""
    return [
        Score(score.arm, score.block, score.order, score.rate * factors.get(score.order, 1))
        for score in scores
    ]


def test_a_straight_drift_is_told_to_the_digit() -> None:
    found = drift(launches(6, loss=0.05 / 17))
    assert found is not None
    assert found.ratio == pytest.approx(exp(-0.05))
    assert found.low == pytest.approx(found.ratio)
    assert found.significant
    assert found.launches == 18


def test_arms_that_differ_are_no_drift() -> None:
    found = drift(launches(6))
    assert found is not None
    assert found.ratio == pytest.approx(1)


def test_of_one_arm_it_is_the_regression_of_scipy() -> None:
    scores = launches(10, arms={"a": 40.0}, loss=0.002, noise=0.01)
    found = drift(scores)
    line = stats.linregress([score.order for score in scores], [log(score.rate) for score in scores])
    half = stats.t.ppf(0.975, 8) * line.stderr
    assert found is not None
    assert log(found.ratio) == pytest.approx(9 * line.slope)
    assert (log(found.low), log(found.high)) == pytest.approx(
        (9 * (line.slope - half), 9 * (line.slope + half))
    )


def test_noise_is_called_drift_as_seldom_as_it_says() -> None:
    found = [drift(launches(4, noise=0.01, seed=seed)) for seed in range(1000)]
    called = sum(one is not None and one.significant for one in found)
    assert 30 <= called <= 70


@pytest.mark.parametrize("blocks", [0, 1])
def test_too_few_launches_tell_no_drift(blocks: int) -> None:
    assert drift(launches(blocks)) is None
    assert drift(launches(blocks + 1, arms={"a": 40.0})) is None


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_launch_far_off_stands_out(factor: float) -> None:
    assert outliers(but(launches(6, noise=0.003), {7: factor})) == (7,)


def test_it_stands_out_of_drift_too() -> None:
    assert outliers(but(launches(6, noise=0.003, loss=0.004), {3: 0.95, 14: 1.05})) == (3, 14)


def test_a_steady_drift_is_no_outlier() -> None:
    assert outliers(launches(6, loss=0.01)) == ()


def test_where_all_agree_only_more_than_a_percent_stands_out() -> None:
    """The median deviation is 0 there."""
    assert outliers(launches(6)) == ()
    assert outliers(but(launches(6), {4: 1.009})) == ()
    assert outliers(but(launches(6), {4: 1.011})) == (4,)


def test_much_noise_hides_what_is_less_than_it() -> None:
    assert outliers(but(launches(8, noise=0.05, seed=3), {4: 0.97})) == ()


def test_arms_with_fewer_than_four_launches_accuse_nobody() -> None:
    assert outliers(but(launches(3), {4: 0.5})) == ()
    assert outliers(but(launches(4), {4: 0.5})) == (4,)
    assert outliers([]) == ()


def test_an_outlier_does_not_accuse_its_neighbours() -> None:
    assert outliers(but(launches(4, noise=0.002), {5: 0.7})) == (5,)


@pytest.mark.parametrize("blocks", [4, 8])
def test_noise_alone_accuses_in_about_one_of_ten_confirmations(blocks: int) -> None:
    accusing = sum(bool(outliers(launches(blocks, noise=0.02, seed=seed))) for seed in range(500))
    assert accusing / 500 < 0.13


def test_ten_percent_off_are_nearly_always_seen() -> None:
    seen = sum(5 in outliers(but(launches(6, noise=0.01, seed=seed), {5: 0.9})) for seed in range(300))
    assert seen / 300 > 0.9
