"""When a candidate is given up while it is being measured."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp
from typing import TYPE_CHECKING

import pytest

from tests.support.trials import a_sample
from tuner.core.objective import Goal, Objective
from tuner.search.pruning import DRAFT_SIGMA, LAUNCH_SIGMA, REQUEST_SIGMA, paired_log_ratio, why_hopeless

if TYPE_CHECKING:
    from tuner.core.measurement import Sample

PROMPTS = ("p1", "p2", "p3", "p4", "p5")


def answers(*rates_tok_s: float) -> list[Sample]:
    """One request a rate, each of another prompt."""
    return [
        a_sample(prompt_id=prompt, predicted_ms=100 / rate * 1000)
        for prompt, rate in zip(PROMPTS, rates_tok_s, strict=False)
    ]


BEST = answers(100, 50, 80, 60, 90)


def hopeless(*rates_tok_s: float, depths: tuple[int, int] = (0, 0)) -> str | None:
    return why_hopeless(answers(*rates_tok_s), BEST, n_prompts=5, depths=depths)


def test_half_the_speed_is_given_up_after_one_request() -> None:
    assert hopeless(50) == "50% of the best after 1 of 5 requests"


def test_a_slow_prompt_is_compared_with_itself() -> None:
    assert hopeless(100, 50) is None
    assert hopeless(100, 25) == "71% of the best after 2 of 5 requests"


def test_what_may_catch_up_goes_on() -> None:
    assert hopeless(95) is None
    assert hopeless(90, 45, 72) is None


def test_noise_of_drafts_is_allowed_for() -> None:
    assert hopeless(78) is not None
    assert hopeless(78, depths=(8, 8)) is None


def test_the_last_request_is_not_given_up() -> None:
    assert hopeless(50, 25, 40, 30, 45) is None


def test_without_a_common_prompt_nothing_is_said() -> None:
    other = [a_sample(prompt_id="another")]
    assert paired_log_ratio(other, BEST) is None
    assert why_hopeless(other, BEST, n_prompts=5, depths=(0, 0)) is None


@pytest.mark.parametrize("depth", [0, 4, 8])
def test_an_equal_candidate_is_hardly_ever_given_up(depth: int) -> None:
    """The noise that the test assumes, played 2,000 times: at most 1 in 200 that are as good are lost."""
    rng = random.Random(depth)  # noqa: S311 - no secret
    request = REQUEST_SIGMA + DRAFT_SIGMA * depth
    lost = 0
    for _ in range(2_000):
        sides = []
        for _side in range(2):
            launch = rng.gauss(0, LAUNCH_SIGMA)
            sides.append(answers(*(80 * exp(launch + rng.gauss(0, request)) for _ in PROMPTS)))
        own, best = sides
        lost += any(
            why_hopeless(own[:n], best, n_prompts=5, depths=(depth, depth)) is not None for n in range(1, 5)
        )
    assert lost <= 10


def test_where_a_turn_counts_a_slow_prompt_is_given_up_and_a_fast_answer_does_not_save_it() -> None:
    slow = [replace(sample, wall_s=3 * sample.wall_s) for sample in BEST[:2]]
    turn = Goal(Objective.TURN)
    assert why_hopeless(slow, BEST, n_prompts=5, depths=(0, 0), goal=turn) == (
        "33% of the best after 2 of 5 requests"
    )
    assert why_hopeless(slow, BEST, n_prompts=5, depths=(0, 0)) is None


def test_a_class_that_does_not_count_gives_nobody_up() -> None:
    slow = [
        replace(sample, prompt_class="prose", predicted_ms=9 * sample.predicted_ms) for sample in BEST[:2]
    ]
    goal = Goal(weights={"code": 1.0})
    assert why_hopeless(slow, BEST, n_prompts=5, depths=(0, 0), goal=goal) is None
    assert why_hopeless(slow, BEST, n_prompts=5, depths=(0, 0)) is not None
