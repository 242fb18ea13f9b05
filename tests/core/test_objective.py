"""What is made the most of."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trials import a_sample
from tuner.core.measurement import FIRST_ONLY, Sample, joined, rates, rates_by_class, rates_by_depth
from tuner.core.objective import FirstTokenLimit, Goal, Objective, aggregate_tok_s, why_too_late

TURN, THROUGHPUT = Goal(Objective.TURN), Goal(Objective.THROUGHPUT)


def answer(prompt_class: str, tok_s: float, *, ttft_s: float = 0.2, began_s: float = 0.0) -> Sample:
    """101 tokens."""
    return a_sample(prompt_class=prompt_class, predicted_ms=1e5 / tok_s, ttft_s=ttft_s, began_s=began_s)


MIXED = [answer("code", 100), answer("code", 100), answer("prose", 50)]

samples_ = st.lists(
    st.builds(
        answer,
        st.sampled_from(["code", "prose"]),
        st.floats(1, 500),
        ttft_s=st.floats(0.01, 30),
        began_s=st.floats(0, 100),
    ),
    min_size=1,
    max_size=8,
)


@given(samples_)
def test_generation_is_sum_over_sum_of_what_comes_after_the_first_token(rows: list[Sample]) -> None:
    assert Goal().rate_tok_s(rows) == pytest.approx(rates(rows).generation_tok_s)


@given(samples_, st.floats(0.1, 10))
def test_weights_are_relative(rows: list[Sample], factor: float) -> None:
    one, other = ({"code": 3 * by, "prose": by} for by in (1.0, factor))
    assert Goal(weights=one).rate_tok_s(rows) == pytest.approx(Goal(weights=other).rate_tok_s(rows))


def test_weights_as_often_as_asked_change_nothing() -> None:
    assert Goal(weights={"code": 2, "prose": 1}).rate_tok_s(MIXED) == pytest.approx(Goal().rate_tok_s(MIXED))


def test_a_class_alone_is_that_classes_rate() -> None:
    assert Goal(weights={"prose": 1}).rate_tok_s(MIXED) == pytest.approx(50)
    assert Goal(weights={"code": 1}).rate_tok_s(MIXED) == pytest.approx(100)


def test_a_class_that_counts_and_was_not_answered_leaves_no_rate() -> None:
    assert Goal(weights={"json": 1, "code": 1}).rate_tok_s(MIXED) is None


def test_a_turn_counts_the_prompt_too() -> None:
    rows = [answer("code", 100, ttft_s=1.01), answer("code", 50, ttft_s=2.02)]
    assert TURN.rate_tok_s(rows) == pytest.approx(2 * 101 / (1.01 + 1 + 2.02 + 2))
    assert TURN.decode_tok_s(rows) == pytest.approx(Goal().rate_tok_s(rows))
    assert rates(rows).turn_s == pytest.approx((2.01 + 4.02) / 2)


def test_throughput_is_from_the_first_request_to_the_last_answer() -> None:
    together = [answer("code", 50, ttft_s=1.0, began_s=3.0), answer("code", 50, ttft_s=2.0, began_s=3.5)]
    assert THROUGHPUT.rate_tok_s(together) == pytest.approx(2 * 101 / (3.5 + 4 - 3))
    assert THROUGHPUT.decode_tok_s(together) == THROUGHPUT.rate_tok_s(together)


@given(st.lists(samples_, min_size=1, max_size=3))
def test_launches_that_are_joined_come_one_after_the_other(launches: list[list[Sample]]) -> None:
    whole = joined(launches)
    tokens = sum(row.predicted_n for rows in launches for row in rows)
    seconds = sum(max(r.began_s + r.wall_s for r in rows) - min(r.began_s for r in rows) for rows in launches)
    assert aggregate_tok_s(whole) == pytest.approx(tokens / seconds)


def test_a_request_for_a_first_token_counts_in_no_rate_but_is_shown() -> None:
    first = replace(answer(FIRST_ONLY, 10, ttft_s=3.0), prompt_n=8190)
    for goal in (Goal(), TURN, THROUGHPUT):
        assert goal.rate_tok_s([*MIXED, first]) == goal.rate_tok_s(MIXED)
    assert rates([*MIXED, first]) == rates(MIXED)
    assert rates_by_class([*MIXED, first])[FIRST_ONLY].ttft_s == 3.0
    assert why_too_late(FirstTokenLimit(3.0, 8192), [*MIXED, first]) is None
    assert why_too_late(FirstTokenLimit(2.0, 8192), [*MIXED, first]) == (
        "the first token came after 3.00 s at 8,190 tokens of prompt; at most 2 s at 8,192 tokens was asked for"
    )


def test_nothing_answered_is_no_rate() -> None:
    for goal in (Goal(), TURN, THROUGHPUT):
        assert goal.rate_tok_s([]) is None


def test_rates_are_told_by_depth_the_shallowest_first() -> None:
    rows = [replace(answer("code", 40), depth_tokens=8192), answer("code", 80)]
    assert {depth: one.generation_tok_s for depth, one in rates_by_depth(rows).items()} == pytest.approx(
        {0: 80, 8192: 40}
    )
    assert list(rates_by_depth(rows)) == [0, 8192]


goals = st.builds(
    Goal,
    st.sampled_from(Objective),
    st.dictionaries(st.text(min_size=1), st.floats(0.01, 100), max_size=3),
    st.none() | st.builds(FirstTokenLimit, st.floats(0.1, 60), st.integers(1, 200_000)),
)


@given(goals)
def test_a_goal_comes_back_out_of_json(goal: Goal) -> None:
    assert Goal.from_json(json.loads(json.dumps(goal.to_json()))) == goal


def test_an_older_study_was_made_for_generation() -> None:
    assert Goal.from_json(None) == Goal()
