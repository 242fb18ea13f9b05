"""Climbing a ladder of contexts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.ladder import Contexts, Rung, share_s
from tuner.core.outcome import Kind
from tuner.runs.ladder import MOST_ATTEMPTS, Climb, Ladder, RungEnd, RungOrder


def candidate(context: int) -> Candidate:
    return Candidate.of({"ubatch-size": 512, "ctx-size": context})


@dataclass
class PlayedRungs:
    """Contexts up to a wall can be tuned; each rung takes a minute and makes two trials."""

    wall: int
    expected: list[int] = field(default_factory=list)
    """What is expected to be the largest, one after the other."""
    stop_at: int | None = None
    orders: list[RungOrder] = field(default_factory=list)
    published: list[Climb] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def make(self, order: RungOrder) -> RungEnd:
        self.orders.append(order)
        fits = order.context <= self.wall
        records = (
            a_record(0, None, measured(20.0), reference="engine-default"),
            a_record(1, candidate(order.context), measured(40.0) if fits else ended(Kind.OUT_OF_MEMORY)),
        )
        rung = Rung(order.context, order.is_max, None, None, None, 2, 0, None, None, (), None)
        return RungEnd(
            rung,
            records,
            candidate(order.context) if fits else None,
            used_s=60.0,
            interrupted=order.context == self.stop_at,
        )

    def climb(
        self, *tokens: int, with_max: bool = False, budget_s: float | None = None, known: tuple[int, ...] = ()
    ) -> Climb:
        return Ladder(
            Contexts(tokens, with_max),
            budget_s=budget_s,
            make=self.make,
            largest=lambda: self.expected.pop(0) if self.expected else None,
            modest=lambda context: candidate(context).with_options({"ubatch-size": 128}),
            publish=self.published.append,
            note=self.notes.append,
            known_max=known,
        ).run()


def contexts(climb: Climb) -> list[int]:
    return [rung.context for rung in climb.rungs]


def test_rungs_are_climbed_from_the_smallest_up_and_told_after_each() -> None:
    played = PlayedRungs(wall=100_000)
    assert contexts(played.climb(8192, 16_384, 32_768)) == [8192, 16_384, 32_768]
    assert [contexts(climb) for climb in played.published] == [
        [8192],
        [8192, 16_384],
        [8192, 16_384, 32_768],
    ]


def test_each_rung_begins_with_the_one_belows_winner_and_knows_its_trials() -> None:
    played = PlayedRungs(wall=100_000)
    played.climb(8192, 16_384, 32_768)
    first, second, third = played.orders
    assert (first.before, first.starts) == ((), ())
    assert second.starts == (("best at 8,192 tokens", candidate(16_384)),)
    assert third.starts == (("best at 16,384 tokens", candidate(32_768)),)
    assert [record.candidate for record in second.before] == [candidate(16_384)]
    assert [record.candidate for record in third.before] == [candidate(32_768)] * 2
    assert {record.score for record in third.before} == {40.0}


def test_above_a_rung_on_which_nothing_runs_nothing_is_tried() -> None:
    played = PlayedRungs(wall=20_000)
    assert contexts(played.climb(8192, 16_384, 32_768, 65_536)) == [8192, 16_384, 32_768]
    assert played.notes == ["32,768 tokens: nothing runs here, so nothing above is tried"]


def test_the_largest_is_the_top_rung() -> None:
    climb = PlayedRungs(wall=50_000, expected=[49_152]).climb(8192, with_max=True)
    assert contexts(climb) == [8192, 49_152]
    assert [rung.is_max for rung in climb.rungs] == [False, True]
    assert climb.tried_as_max == (49_152,)


def test_the_top_begins_with_what_takes_least_memory() -> None:
    played = PlayedRungs(wall=50_000, expected=[49_152])
    played.climb(8192, with_max=True)
    modest = candidate(49_152).with_options({"ubatch-size": 128})
    assert played.orders[-1].starts == (("what takes least memory", modest),)


def test_a_largest_that_does_not_run_is_followed_by_what_is_then_expected() -> None:
    played = PlayedRungs(wall=50_000, expected=[65_536, 49_152])
    climb = played.climb(8192, with_max=True)
    assert climb.tried_as_max == (65_536, 49_152)
    assert contexts(climb) == [8192, 65_536, 49_152]
    assert played.notes == ["65,536 tokens are more than fit after all"]


def test_expecting_too_much_again_and_again_comes_to_an_end() -> None:
    played = PlayedRungs(wall=10_000, expected=[65_536] * 9)
    climb = played.climb(8192, with_max=True)
    assert len(climb.tried_as_max) == MOST_ATTEMPTS
    assert climb.tried_as_max == (65_536, 61_440, 57_600)


@pytest.mark.parametrize("expected", [[16_384], [8192], []])
def test_nothing_above_the_highest_rung_is_no_rung_of_its_own(expected: list[int]) -> None:
    played = PlayedRungs(wall=20_000, expected=expected)
    assert contexts(played.climb(8192, 16_384, with_max=True)) == [8192, 16_384]
    assert played.notes == ["max: nothing above 16,384 tokens fits"]


def test_a_resumed_climb_goes_on_with_the_largest_that_was_found_then() -> None:
    played = PlayedRungs(wall=50_000, expected=[40_960])
    assert contexts(played.climb(8192, with_max=True, known=(49_152,))) == [8192, 49_152]
    assert played.expected == [40_960]


def test_the_largest_is_on_disk_before_its_first_launch() -> None:
    played = PlayedRungs(wall=50_000, expected=[49_152])
    played.climb(8192, with_max=True)
    assert (played.published[1].tried_as_max, contexts(played.published[1])) == ((49_152,), [8192])


def test_being_asked_to_stop_ends_the_climb_and_keeps_what_there_is() -> None:
    climb = PlayedRungs(wall=99_999, stop_at=16_384).climb(8192, 16_384, 32_768, with_max=True)
    assert climb.interrupted
    assert contexts(climb) == [8192, 16_384]


def test_each_rung_has_an_equal_part_of_what_is_left() -> None:
    played = PlayedRungs(wall=99_999, expected=[65_536])
    played.climb(8192, 16_384, with_max=True, budget_s=600.0)
    assert [order.budget_s for order in played.orders] == [200.0, 270.0, 480.0]


@given(st.floats(0, 1e5), st.lists(st.floats(0, 1e4), max_size=5), st.integers(1, 5))
def test_shares_never_exceed_what_is_left(budget_s: float, used_s: list[float], above: int) -> None:
    share = share_s(budget_s, used_s, len(used_s) + above)
    assert share is not None
    assert 0 <= share * above <= max(budget_s - sum(used_s), 0) + 1e-6
    assert share_s(None, used_s, 9) is None
