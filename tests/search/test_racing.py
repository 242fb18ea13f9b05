"""Who is out of a race of searches, and whose turn it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.pareto import Worth
from tuner.search.racing import (
    LEAST_LAUNCHES,
    NOTHING_RUNS_AFTER,
    Runner,
    losers,
    next_turn,
    still_faster,
)

Q8 = Runner("new Q8", Worth(50.0, 16_384, 0.0, "Q8"), 32_768, 0.0, candidates=8, launches=9, over=False)


def of(name: str, speed: float | None = 50.0, **changes: object) -> Runner:
    """As Q8, but for some fields of it or of its best."""
    best = Worth(speed, 16_384, 0.0, "Q8")
    own = {key: value for key, value in changes.items() if key in Worth.__dataclass_fields__}
    rest = {key: value for key, value in changes.items() if key not in own}
    return replace(Q8, name=name, best=replace(best, **own), **rest)  # type: ignore[arg-type]  # by name


def out(*runners: Runner) -> list[str]:
    return [one.name for one in losers(runners)]


speeds = st.none() | st.floats(5.0, 100.0)
runners = st.lists(
    st.builds(
        Runner,
        st.uuids().map(str),
        st.builds(
            Worth,
            speeds,
            st.sampled_from([8192, 16_384, 32_768]),
            st.none() | st.floats(0, 0.5),
            st.sampled_from(["Q8", "Q4"]),
        ),
        st.none() | st.sampled_from([8192, 16_384, 65_536]),
        st.none() | st.floats(0, 0.5),
        st.integers(0, 40),
        st.integers(0, 41),
        st.booleans(),
    ),
    max_size=6,
)


def test_a_file_that_is_slower_shorter_and_worse_is_out_and_why_is_said() -> None:
    odd = of(
        "new Q5", 30.0, context_tokens=8192, off_nats=0.2, most_context_tokens=12_288, least_off_nats=0.1
    )
    (found,) = losers([Q8, odd])
    assert (found.name, found.by, found.launches) == ("new Q5", "new Q8", 8)
    assert found.why == (
        "30.0 tok/s against 50.0, at most 12,288 tokens of context against 16,384, "
        "answers 0.2 nats off against 0 nats"
    )


def test_the_same_file_on_a_slower_engine_is_out() -> None:
    assert out(Q8, of("old Q8", 40.0, most_context_tokens=16_384)) == ["old Q8"]


@pytest.mark.parametrize(
    "changes",
    [
        {"off_nats": 0.0, "file": "F16"},  # as good at least
        {"most_context_tokens": 65_536},  # something of it may reach further than the winner's best
        {"least_off_nats": 0.0, "off_nats": 0.2},  # something of it answers better than its best does
    ],
)
def test_what_may_be_better_somewhere_stays(changes: dict[str, object]) -> None:
    faster = of("new Q4", 90.0, off_nats=0.08, file="Q4", most_context_tokens=16_384)
    assert out(faster, of("other", 40.0, **changes)) == []


def test_early_on_only_what_is_far_behind_is_out() -> None:
    behind = 0.9
    for launches, lost in ((LEAST_LAUNCHES, False), (8, True), (20, True)):
        slower = of("old Q8", 50.0 * behind, most_context_tokens=16_384, candidates=launches)
        assert (out(Q8, slower) == ["old Q8"]) == lost, launches


def test_nobody_is_out_before_its_first_turn_is_through() -> None:
    slow = of("old Q8", 10.0, most_context_tokens=16_384, candidates=LEAST_LAUNCHES - 1)
    assert out(Q8, slow) == []
    assert out(Q8, replace(slow, over=True)) == ["old Q8"]  # there is nothing more to come


def test_where_nothing_runs_it_is_out_after_some_launches() -> None:
    assert out(Q8, of("new F16", None, candidates=NOTHING_RUNS_AFTER - 1)) == []
    (found,) = losers([Q8, of("new F16", None, candidates=NOTHING_RUNS_AFTER)])
    assert (found.by, found.why) == (None, "nothing of it runs")
    assert out(of("new F16", None, candidates=2, over=True)) == ["new F16"]


@PROPERTY
@given(runners)
def test_a_race_always_keeps_somebody_that_was_measured(field: list[Runner]) -> None:
    gone = set(out(*field))
    measured = [one for one in field if one.best.speed_tok_s is not None]
    assert not measured or any(one.name not in gone for one in measured)
    by = {one.by for one in losers(field)} - {None}
    assert by <= {one.name for one in measured}


@PROPERTY
@given(runners, st.sets(st.integers(0, 5)))
def test_it_is_the_turn_of_who_had_fewest_launches(field: list[Runner], gone: set[int]) -> None:
    names = {one.name for place, one in enumerate(field) if place in gone}
    found = next_turn(field, names)
    left = [one for one in field if not one.over and one.name not in names]
    assert (found is None) == (not left)
    assert found is None or found.launches == min(one.launches for one in left)


def test_hope_falls_with_launches_and_never_to_nothing() -> None:
    hopes = [still_faster(launches) for launches in range(1, 60)]
    assert hopes == sorted(hopes, reverse=True)
    assert hopes[-1] > 0
