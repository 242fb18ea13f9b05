"""Confirmations played with the real stopping rule: how often intervals hold, and how often a lead is found.

`make stats` plays more of them.
"""

from __future__ import annotations

import pytest

from tests.support.confirmation_runs import Scenario, simulate

RUNS = 1500
LEAST_COVERED, LEAST_FOUND = 0.94, 0.90

EQUAL = [
    Scenario("two", (1, 1)),
    Scenario("two, long", (1, 1), blocks=14),
    Scenario("two that are soon close enough", (1, 1), worthwhile=0.03),
    Scenario("three and a reference", (1, 1, 1), (1,)),
    Scenario("four and two references", (1, 1, 1, 1), (1, 1)),
    Scenario("drift", (1, 1, 1), (1,), drift=0.05),
    Scenario("noise", (1, 1, 1), (1,), noise=0.05),
    Scenario("time", (1, 1), (1,), timed=True),
]


@pytest.mark.parametrize("scenario", EQUAL, ids=lambda scenario: scenario.name)
def test_between_equals_the_intervals_cover_1(scenario: Scenario) -> None:
    found = simulate(scenario, RUNS, seed=1)
    assert found.covers_runner_up is not None
    assert found.covers_runner_up >= LEAST_COVERED
    assert found.covers_reference is None or found.covers_reference >= LEAST_COVERED


@pytest.mark.parametrize("leaders", [(1, 0.97), (0.97, 1, 0.97)])
def test_three_percent_are_found_within_eight_launches(leaders: tuple[float, ...]) -> None:
    found = simulate(Scenario("ahead", leaders), RUNS, seed=1)
    assert found.finds is not None
    assert found.finds_runner_up is not None
    assert min(found.finds, found.finds_runner_up) >= LEAST_FOUND
    assert found.covers_all >= LEAST_COVERED
    assert found.early > 0.3


def test_references_far_behind_are_settled_early_and_cost_no_more_launches() -> None:
    found = simulate(Scenario("behind", (1, 1), (0.9, 0.9)), RUNS, seed=1)
    assert found.launches < 0.8 * 8 * 4
    assert found.covers_reference is not None
    assert found.covers_reference >= LEAST_COVERED


def test_looking_after_each_block_with_a_plain_interval_would_not_cover() -> None:
    found = simulate(Scenario("naive", (1, 1), naive=True), RUNS, seed=1)
    assert found.covers_all < 0.90
