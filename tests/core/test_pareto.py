"""Which of several choices are worth having."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.pareto import Worth, beats, worth_having

GOOD = Worth(50.0, 32_768, 0.02, "Q6")

speeds = st.none() | st.floats(1.0, 200.0)
contexts = st.none() | st.integers(1, 256).map(lambda steps: steps * 1024)
answers = st.none() | st.floats(0.0, 2.0)
worths = st.builds(Worth, speeds, contexts, answers, st.sampled_from(["Q4", "Q6", "Q8"]))
known = st.builds(
    Worth,
    st.floats(1.0, 200.0),
    st.integers(1, 256).map(lambda steps: steps * 1024),
    st.floats(0.0, 2.0),
    st.just("Q6"),
)
better = st.floats(1.0, 3.0)


def leaves(*choices: Worth) -> list[int]:
    return worth_having(choices)


# --- one against another


@pytest.mark.parametrize(
    ("other", "is_beaten"),
    [
        (replace(GOOD, speed_tok_s=40.0, context_tokens=16_384, off_nats=0.1), True),
        (replace(GOOD, speed_tok_s=40.0), True),  # as far and as good, but slower
        (replace(GOOD, context_tokens=16_384), True),
        (replace(GOOD, off_nats=0.1), True),
        (replace(GOOD, speed_tok_s=40.0, off_nats=0.0), False),  # slower, but with better answers
        (replace(GOOD, speed_tok_s=40.0, context_tokens=65_536), False),
        (replace(GOOD, speed_tok_s=49.5), False),  # noise
        (replace(GOOD, off_nats=0.024), False),
        (GOOD, False),
        # nobody knows how good another file's answers are
        (Worth(40.0, 16_384, None, "Q4"), False),
        (Worth(40.0, None, 0.1, "Q4"), False),
        (Worth(None, 16_384, 0.1, "Q4"), False),
    ],
)
def test_what_is_nowhere_better_and_somewhere_clearly_worse_is_beaten(other: Worth, is_beaten: bool) -> None:  # noqa: FBT001 - a table's column
    assert beats(GOOD, other) is is_beaten
    assert not beats(other, GOOD)


def test_the_same_file_is_as_good_on_another_engine_where_nobody_looked() -> None:
    unknown = replace(GOOD, off_nats=None)
    assert beats(unknown, replace(unknown, speed_tok_s=40.0))
    assert beats(GOOD, replace(unknown, speed_tok_s=40.0))
    assert not beats(unknown, replace(unknown, speed_tok_s=40.0, file="Q4"))


def test_differences_that_are_noise_alone_do_not_add_up_to_a_win() -> None:
    """A choice that is a little better everywhere beats nothing."""
    assert not beats(Worth(51.0, 33_000, 0.019, "Q6"), GOOD)


@PROPERTY
@given(worths, worths)
def test_nothing_beats_itself_and_no_two_beat_each_other(one: Worth, other: Worth) -> None:
    assert not beats(one, one)
    assert not (beats(one, other) and beats(other, one))


@PROPERTY
@given(known, known, better, better, better)
def test_who_becomes_better_goes_on_winning(
    one: Worth, other: Worth, faster: float, longer: float, nearer: float
) -> None:
    assert one.speed_tok_s is not None
    assert one.context_tokens is not None
    assert one.off_nats is not None
    improved = Worth(
        one.speed_tok_s * faster, round(one.context_tokens * longer), one.off_nats / nearer, one.file
    )
    if beats(one, other):
        assert beats(improved, other)
    if beats(other, improved):
        assert beats(other, one)


# --- several


def test_the_set_holds_the_fast_the_long_and_the_good() -> None:
    fast, long, good = (
        replace(GOOD, speed_tok_s=90.0, off_nats=0.2),
        replace(GOOD, context_tokens=131_072, speed_tok_s=45.0),
        replace(GOOD, off_nats=0.0, speed_tok_s=35.0, context_tokens=16_384),
    )
    slow = replace(GOOD, speed_tok_s=30.0, off_nats=0.3)
    assert leaves(fast, long, good, slow) == [0, 1, 2]


def test_three_that_are_each_a_little_worse_somewhere_do_not_beat_each_other_in_a_circle() -> None:
    def at(speed: float, context: float, off: float) -> Worth:
        """So many times what counts as noise."""
        return Worth(50 * 1.03**speed, round(32_768 * 1.02**context), 0.05 * 1.5**-off - 0.01, "Q6")

    circle = [at(0, 0.75, -0.75), at(-0.75, 0, 0.75), at(0.75, -0.75, 0)]
    assert leaves(*circle)


@PROPERTY
@given(st.lists(worths, max_size=8))
def test_something_is_always_worth_having(choices: list[Worth]) -> None:
    left = leaves(*choices)
    assert bool(left) == any(one.speed_tok_s is not None for one in choices)
    for place in left:
        assert choices[place].speed_tok_s is not None
        assert not any(beats(other, choices[place]) for other in choices)


@PROPERTY
@given(st.lists(worths, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(choices: list[Worth], rng: object) -> None:
    places = list(range(len(choices)))
    rng.shuffle(places)  # type: ignore[attr-defined]  # a random.Random
    shuffled = leaves(*(choices[place] for place in places))
    assert sorted(places[place] for place in shuffled) == leaves(*choices)
