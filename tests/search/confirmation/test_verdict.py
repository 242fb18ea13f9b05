"""Who is out, who is launched again, who wins."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.confirmation.interval import paired
from tuner.search.confirmation.verdict import (
    Plan,
    Score,
    choose,
    compare,
    order_of,
    runner_up,
    standing,
)

if TYPE_CHECKING:
    import random

#: Deviations of launches, in log units, that tell no arm from another.
WOBBLE = (0.004, -0.006, 0.005, -0.003, 0.006, -0.004, 0.003, -0.005)


def plan(leaders: str = "abc", references: str = "d", blocks: int = 8, worthwhile: float = 0.01) -> Plan:
    return Plan(tuple(leaders), tuple(references), blocks, worthwhile)


def launches(rates: dict[str, float], blocks: range, *, wobble: float = 1.0) -> list[Score]:
    """One launch of each arm a block; each arm wobbles differently."""
    arms = tuple(rates)
    return [
        Score(
            arm,
            block,
            block * 100 + place,
            rates[arm] * exp(wobble * WOBBLE[(block * (1 + 2 * arms.index(arm)) + arms.index(arm)) % 8]),
        )
        for block in blocks
        for place, arm in enumerate(order_of(arms, block))
    ]


def test_blocks_run_forth_and_back() -> None:
    assert order_of("abc", 0) == ("a", "b", "c")
    assert order_of("abc", 1) == ("c", "b", "a")
    assert order_of("abc", 2) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("leaders", "references", "blocks", "worthwhile", "message"),
    [
        ("", "d", 8, 0.01, "needs a leader"),
        ("aa", "d", 8, 0.01, "twice"),
        ("ab", "b", 8, 0.01, "twice"),
        ("ab", "", 1, 0.01, "at least 2"),
        ("ab", "", 8, -0.01, "worth while"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(
    leaders: str, references: str, blocks: int, worthwhile: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plan(leaders, references, blocks, worthwhile)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="no score"):
        Score("a", 0, 0, rate)


@pytest.mark.parametrize(
    ("leaders", "pair", "choices"),
    [
        ("ab", "ab", 1),
        ("abc", "ab", 2),
        ("abce", "ab", 3),
        ("a", "ad", 1),
        ("abc", "ad", 3),
        ("abce", "da", 4),
    ],
)
def test_the_error_is_divided_by_the_choices(leaders: str, pair: str, choices: int) -> None:
    scores = launches(dict.fromkeys("abcde", 40.0), range(4))
    found = compare(pair[0], pair[1], scores, plan(leaders), 4)
    assert found is not None
    assert found.alpha == pytest.approx(0.05 * 4 / 8 / choices)


def test_pairs_are_of_one_block() -> None:
    """What the launches of a block share falls out."""
    scores = [
        Score(arm, block, 0, rate * (1 + block))
        for block, (a, b) in enumerate([(40, 41), (44, 44), (42, 41), (40, 39)])
        for arm, rate in (("a", a), ("b", b))
    ]
    expected = paired([log(40 / 41), 0.0, log(42 / 41), log(40 / 39)], 0.025)
    assert expected is not None
    found = compare("a", "b", scores, plan("ab", ""), 4)
    assert found is not None
    assert (found.low, found.ratio, found.high) == pytest.approx(
        (expected.low, expected.ratio, expected.high)
    )


def test_only_blocks_with_both_count() -> None:
    scores = launches({"a": 40, "b": 39}, range(4))
    without = [score for score in scores if (score.arm, score.block) != ("b", 2)]
    found = compare("a", "b", without, plan("ab", ""), 4)
    assert found is not None
    assert found.blocks == 3


def test_later_blocks_do_not_change_an_earlier_look() -> None:
    early, late = launches({"a": 40, "b": 39}, range(4)), launches({"a": 40, "b": 30}, range(4, 8))
    assert compare("a", "b", early + late, plan("ab", ""), 4) == compare("a", "b", early, plan("ab", ""), 4)


def test_a_pair_that_is_no_longer_launched_keeps_its_interval() -> None:
    both = launches({"a": 40, "b": 30}, range(4))
    alone = launches({"a": 40}, range(4, 8))
    then = compare("a", "b", both, plan("ab", ""), 4)
    assert then is not None
    assert then.alpha == pytest.approx(0.025)
    assert compare("a", "b", both + alone, plan("ab", ""), 6) == then
    assert compare("a", "b", both + alone, plan("ab", ""), 7, final=True) == then


def test_when_time_runs_out_all_that_is_left_may_be_spent() -> None:
    scores = launches({"a": 40, "b": 39}, range(5))
    found = compare("a", "b", scores, plan("ab", ""), 5, final=True)
    assert found is not None
    assert found.alpha == pytest.approx(0.025)
    assert found.blocks == 5


def test_without_two_pairs_nothing_is_said() -> None:
    assert compare("a", "b", launches({"a": 40, "b": 39}, range(1)), plan("ab", ""), 4) is None
    assert compare("a", "b", launches({"a": 40}, range(4)), plan("ab", ""), 4) is None


def test_only_arms_of_the_plan_are_compared() -> None:
    with pytest.raises(ValueError, match="no 'x'"):
        compare("a", "x", [], plan(), 4)
    with pytest.raises(ValueError, match="with itself"):
        compare("a", "a", [], plan(), 4)


def test_who_is_clearly_slower_is_dropped_and_launched_no_more() -> None:
    rates = {"a": 40.0, "b": 40.05, "c": 36.0, "d": 20.0}
    found = standing(plan(), launches(rates, range(4)), 4)
    assert found.active_leaders == ("a", "b")
    assert found.dropped["c"] in {"a", "b"}
    assert found.still_open == ("a", "b")
    assert not found.done


def test_a_drop_is_for_good() -> None:
    rates = {"a": 40.0, "b": 40.05, "c": 36.0, "d": 20.0}
    scores = launches(rates, range(4)) + launches({**rates, "c": 60.0}, range(4, 6))
    assert "c" in standing(plan(), scores, 6).dropped


def test_one_leader_left_and_references_settled_is_the_end() -> None:
    found = standing(plan(), launches({"a": 40, "b": 36, "c": 35, "d": 20}, range(4)), 4)
    assert found.done
    assert found.active_leaders == ("a",)
    assert found.still_open == ()
    assert set(found.dropped) == {"b", "c"}


def test_a_reference_that_may_be_as_fast_is_launched_on() -> None:
    found = standing(plan(), launches({"a": 40, "b": 36, "c": 35, "d": 40.05}, range(4)), 4)
    assert not found.done
    assert found.still_open == ("a", "d")


def test_a_reference_that_is_just_as_fast_is_settled() -> None:
    scores = launches({"a": 40, "b": 36, "c": 35, "d": 40.001}, range(4), wobble=0.01)
    assert standing(plan(), scores, 4).done


def test_leaders_that_are_just_as_fast_are_the_end() -> None:
    scores = launches({"a": 40, "b": 40.001, "c": 40.0005, "d": 20}, range(4), wobble=0.01)
    assert standing(plan(worthwhile=0.02), scores, 4).done
    found = standing(plan(worthwhile=0.0), launches({"a": 40, "b": 40, "c": 40, "d": 20}, range(4)), 4)
    assert not found.done
    assert found.still_open == ("a", "b", "c")


def test_the_last_look_is_the_end() -> None:
    scores = launches({"a": 40, "b": 40.05, "c": 40, "d": 40}, range(8))
    assert standing(plan(), scores, 8).done
    assert standing(plan(), scores, 5, final=True).done
    assert standing(plan(), scores, 6, final=True).done
    assert not standing(plan(), scores, 6).done


def test_nobody_looks_between() -> None:
    with pytest.raises(ValueError, match="no look is planned after 5 of 8"):
        standing(plan(), [], 5)


def test_before_there_are_scores_all_is_open() -> None:
    found = standing(plan(), [], 4)
    assert found.still_open == ("a", "b", "c", "d")


def test_one_leader_is_compared_with_its_references() -> None:
    assert standing(plan("a", "d"), launches({"a": 40, "d": 30}, range(4)), 4).done
    assert standing(plan("a", ""), [], 4).done


def test_who_failed_for_good_is_neither_compared_nor_launched() -> None:
    scores = launches({"a": 40, "b": 40.05, "c": 45, "d": 20}, range(4))
    assert standing(plan(), scores, 4).active_leaders == ("c",)
    found = standing(plan(), scores, 4, out={"c"})
    assert found.active_leaders == ("a", "b")
    assert found.dropped == {}
    assert found.still_open == ("a", "b")
    assert standing(plan(), scores, 4, out={"a", "b", "c"}).done


def test_a_failed_reference_keeps_nobody_waiting() -> None:
    scores = launches({"a": 40, "b": 36, "c": 35, "d": 40.05}, range(4))
    assert standing(plan(), scores, 4, out={"d"}).done


def test_contradictions_between_different_blocks_drop_nobody() -> None:
    """A beats b, b beats c and c beats a, each in two blocks that the third missed."""
    scores = [
        score
        for start, fast, slow in ((0, "a", "b"), (1, "b", "c"), (2, "c", "a"))
        for block in (start, start + 8)
        for score in launches({fast: 40, slow: 30}, range(block, block + 1), wobble=0.0001)
    ]
    assert standing(plan("ab", "", 12), scores, 12).dropped == {"b": "a"}
    found = standing(plan("abc", "", 12), scores, 12)
    assert found.dropped == {}
    assert found.active_leaders == ("a", "b", "c")


rates = st.lists(st.floats(30, 50), min_size=4 * 8, max_size=4 * 8)


@given(rates, st.randoms())
def test_a_standing_depends_on_the_scores_alone(values: list[float], rng: random.Random) -> None:
    scores = [Score("abcd"[place % 4], place // 4, place, rate) for place, rate in enumerate(values)]
    shuffled = list(scores)
    rng.shuffle(shuffled)
    before: set[str] = set()
    for look in (4, 6, 8):
        found = standing(plan(), shuffled, look)
        assert found == standing(plan(), scores, look)
        assert found == standing(plan(), [score for score in scores if score.block < look], look)
        assert before <= set(found.dropped)
        assert set(found.active_leaders).isdisjoint(found.dropped)
        assert {*found.active_leaders, *found.dropped} == {"a", "b", "c"}
        assert found.active_leaders
        before = set(found.dropped)


EVEN = launches({"a": 40, "b": 41, "c": 42}, range(4))
SAME = dict.fromkeys("abc", 3)


def test_a_leader_alone_wins() -> None:
    assert choose(["b"], EVEN, {}, SAME) == "b"


def test_of_equals_more_memory_left_wins() -> None:
    assert choose("abc", EVEN, {"a": 2000, "b": 1500, "c": 1000}, SAME) == "a"


def test_then_the_plainer_command() -> None:
    assert choose("abc", EVEN, {"a": 2000, "b": 1800, "c": 1000}, {"a": 3, "b": 2, "c": 1}) == "b"


def test_then_the_faster_then_the_name() -> None:
    assert choose("abc", EVEN, {"a": 2000, "b": 1800, "c": 1745}, SAME) == "c"
    assert choose("cba", [], {}, SAME) == "a"


def test_a_rest_that_is_unknown_counts_as_equal() -> None:
    assert choose("abc", EVEN, {"a": 2000, "b": None, "c": 1000}, {"a": 3, "b": 2, "c": 1}) == "b"
    assert choose("abc", EVEN, {}, SAME) == "c"


def test_without_a_leader_nobody_wins() -> None:
    with pytest.raises(ValueError, match="no leader"):
        choose([], EVEN, {}, {})


headrooms = st.none() | st.integers(0, 1200)


@given(
    st.permutations("abcd"),
    st.lists(headrooms, min_size=4, max_size=4),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
)
def test_the_choice_depends_on_no_order_and_nobody_has_much_more_room(
    names: list[str], mib: list[int | None], options: list[int]
) -> None:
    scores = launches({"a": 40, "b": 41, "c": 42, "d": 40.5}, range(4))
    headroom, plainness = dict(zip("abcd", mib, strict=True)), dict(zip("abcd", options, strict=True))
    winner = choose(names, list(reversed(scores)), headroom, plainness)
    assert winner == choose("abcd", scores, headroom, plainness)
    own = headroom[winner]
    assert own is None or all(other is None or other - own < 256 for other in mib)
    assert all(
        plainness[winner] <= plainness[other]
        for other, left in headroom.items()
        if left is None or left == max((value for value in mib if value is not None), default=0)
    )


def test_the_runner_up_is_the_next_fastest_leader() -> None:
    scores = launches({"a": 40, "b": 41, "c": 42, "d": 50}, range(4))
    assert runner_up(plan(), scores, "c") == "b"
    assert runner_up(plan(), scores, "b") == "c"
    assert runner_up(plan(), scores, "c", out={"b"}) == "a"


def test_a_leader_alone_has_no_runner_up() -> None:
    assert runner_up(plan("a"), EVEN, "a") is None
    assert runner_up(plan("az"), EVEN, "a") is None


def test_who_ran_on_cooler_cards_is_no_faster_for_it() -> None:
    """B was dropped before the rig slowed down, c went on: c is the closer one."""
    early = launches({"a": 42, "b": 40, "c": 41}, range(4))
    late = launches({"a": 36, "c": 35}, range(4, 8))
    assert runner_up(plan(), early + late, "a") == "c"
