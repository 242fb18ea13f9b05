"""What a confirmation decides at a look: who is out, who is launched again, who wins.

Every block launches what is still open once, even blocks in order and odd ones in reverse (ABBA), so that drift hits
all alike. Pairs are compared by the intervals of `interval` with the errors of `looks`. Where the winner is picked
out of k leaders on the same samples, the error is divided (Bonferroni): by k - 1 between leaders, which are the
comparisons with the best one (Hsu 1984, Annals of Statistics 12:1136): all of its intervals hold together, so it is
hardly ever dropped; by k between a leader and a reference. k is that of the start: who is dropped was a choice, too.

All is worked out from the scores anew at each look, so that a run that was interrupted decides as it would have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import fsum, inf, log
from typing import TYPE_CHECKING

from tuner.search.confirmation.interval import paired
from tuner.search.confirmation.looks import alpha_at, looks_until

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tuner.search.confirmation.interval import Interval

#: Fewer blocks show no spread.
LEAST_BLOCKS = 2
#: Memory that is left over by less than this, in MiB, is as good as the same.
SAME_HEADROOM_MIB = 256


@dataclass(frozen=True, slots=True)
class Score:
    """One launch.

    Args:
        arm: The candidate's name.
        block: From 0.
        order: The launch's number over the whole confirmation.
        rate: Generated tok/s, above 0.
    """

    arm: str
    block: int
    order: int
    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate < inf:
            raise ValueError(f"{self.arm}: a rate of {self.rate:g} tok/s is no score")


@dataclass(frozen=True, slots=True)
class Plan:
    """What was settled before the first launch; the intervals hold only as long as it stays as it is.

    Args:
        leaders: The candidates of which one wins.
        references: What the winner is compared with.
        blocks: How many blocks at most.
        worthwhile: A difference that is worth while, as a fraction: 0.02 is 2 %.
        every_block: Whether all blocks are launched, whatever is known before: it is asked how much, not whether.
    """

    leaders: tuple[str, ...]
    references: tuple[str, ...]
    blocks: int
    worthwhile: float
    every_block: bool = False

    def __post_init__(self) -> None:
        if not self.leaders:
            raise ValueError("a confirmation needs a leader")
        if len(set(self.arms)) < len(self.arms):
            raise ValueError(f"one candidate is there twice: {', '.join(self.arms)}")
        if self.blocks < LEAST_BLOCKS:
            raise ValueError(f"{self.blocks} blocks: a confirmation needs at least {LEAST_BLOCKS}")
        if not 0 <= self.worthwhile < inf:
            raise ValueError(f"{self.worthwhile:g} is no difference that is worth while")

    @property
    def arms(self) -> tuple[str, ...]:
        """All that is launched, in order."""
        return self.leaders + self.references


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known at a look.

    Args:
        look: Blocks so far.
        active_leaders: Those that no other leader is clearly faster than.
        dropped: For each other leader, the one that is faster.
        still_open: What must be launched in the next block, in the plan's order.
        done: Whether nothing is left to find out.
    """

    look: int
    active_leaders: tuple[str, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)
    still_open: tuple[str, ...] = ()
    done: bool = False


def order_of(arms: Sequence[str], block: int) -> tuple[str, ...]:
    """In which order a block launches, blocks counted from 0."""
    return tuple(arms) if block % 2 == 0 else tuple(reversed(arms))


def compare(
    a: str, b: str, scores: Iterable[Score], plan: Plan, look: int, *, final: bool = False
) -> Interval | None:
    """How much faster `a` is than `b`, by the blocks in which both have a score; None for fewer than two.

    A pair that was not launched together since an earlier look keeps the interval of that look.

    Args:
        a: An arm.
        b: Another.
        scores: Of any arms; of two for one arm and block the later launch counts.
        plan: The confirmation's.
        look: Blocks so far.
        final: Whether no block will follow, because time ran out.

    Raises:
        ValueError: The plan has no such arms, or no look there.
    """
    return _Table(plan, scores).compare(a, b, looks_until(look, plan.blocks, final=final), final=final)


def standing(
    plan: Plan, scores: Iterable[Score], look: int, *, final: bool = False, out: Collection[str] = ()
) -> Standing:
    """What is known after so many blocks.

    A leader is dropped for good when another is faster for certain. A reference is settled when its interval
    against every active leader excludes 1, or all of it is smaller than what is worth while; leaders are when one is
    left, or they are all that close.

    Args:
        plan: The confirmation's.
        scores: All so far.
        look: Blocks so far.
        final: Whether no block will follow, because time ran out.
        out: Arms that failed for good: they are not compared, and drop nobody.

    Raises:
        ValueError: No look is planned there, and it is not the last.
    """
    table = _Table(plan, scores)
    taken = looks_until(look, plan.blocks, final=final)
    active = [leader for leader in plan.leaders if leader not in out]
    dropped: dict[str, str] = {}
    for place in range(1, len(taken) + 1):
        worse = table.worse(active, taken[:place], final=final and place == len(taken))
        active = [leader for leader in active if leader not in worse]
        dropped |= worse
    last = final or look == plan.blocks
    close = all(table.close(a, b, taken) for a, b in combinations(active, 2))
    unsettled = [
        reference
        for reference in plan.references
        if reference not in out and not all(table.settled(leader, reference, taken) for leader in active)
    ]
    done = last or not active or (close and not unsettled and not plan.every_block)
    references = plan.references if plan.every_block else unsettled
    still_open = () if done else (*active, *references)
    return Standing(
        look=look, active_leaders=tuple(active), dropped=dropped, still_open=still_open, done=done
    )


def choose(
    active_leaders: Collection[str],
    scores: Iterable[Score],
    headroom_mib: Mapping[str, int | None],
    plainness: Mapping[str, int],
) -> str:
    """The winner among leaders that do not differ for certain.

    Among those with about the most memory left, or with an unknown rest, the plainest wins, then the fastest,
    then the first by name.

    Args:
        active_leaders: Their names.
        scores: Of any arms.
        headroom_mib: Memory left, in MiB; None where it is unknown.
        plainness: How many options differ from the engine's defaults.

    Raises:
        ValueError: There is no leader.
    """
    if not active_leaders:
        raise ValueError("no leader is left to choose from")
    rates = _log_rates(scores)
    left = {leader: headroom_mib.get(leader) for leader in active_leaders}
    most = max((mib for mib in left.values() if mib is not None), default=0)
    roomy = [leader for leader, mib in left.items() if mib is None or most - mib < SAME_HEADROOM_MIB]
    return min(roomy, key=lambda leader: (plainness[leader], -_mean(rates.get(leader, {}).values()), leader))


def runner_up(plan: Plan, scores: Iterable[Score], winner: str, *, out: Collection[str] = ()) -> str | None:
    """The fastest leader but the winner, dropped or not; None where there is no other with a score.

    Each is measured against the winner in the blocks that they share: who was dropped early ran on cooler cards.
    """
    rates = _log_rates(scores)
    ratios = {
        leader: _mean(_log_ratios(rates, leader, winner).values())
        for leader in plan.leaders
        if leader != winner and leader not in out and leader in rates
    }
    return min(ratios, key=lambda leader: (-ratios[leader], leader), default=None)


class _Table:
    """The scores by arm and block, and what they say of two arms at a look."""

    def __init__(self, plan: Plan, scores: Iterable[Score]) -> None:
        self._plan = plan
        self._rates = _log_rates(scores)

    def compare(self, a: str, b: str, taken: Sequence[int], *, final: bool = False) -> Interval | None:
        """The interval at the last look that had new blocks of both."""
        choices = self._choices(a, b)
        ratios = _log_ratios(self._rates, a, b)
        for place in reversed(range(len(taken))):
            look, previous = taken[place], taken[place - 1] if place else 0
            if any(previous <= block < look for block in ratios):
                last = final and place == len(taken) - 1
                alpha = alpha_at(look, self._plan.blocks, previous=previous, final=last) / choices
                return paired([ratio for block, ratio in ratios.items() if block < look], float(alpha))
        return None

    def worse(self, active: Sequence[str], taken: Sequence[int], *, final: bool) -> dict[str, str]:
        """Leaders that another is faster than for certain, and the one that is so by most."""
        found: dict[str, tuple[float, str]] = {}
        for pair in combinations(active, 2):
            interval = self.compare(*pair, taken, final=final)
            if interval is not None and interval.significant:
                fast, slow = pair if interval.low > 1 else pair[::-1]
                least = max(interval.low, 1 / interval.high)
                if slow not in found or least > found[slow][0]:
                    found[slow] = least, fast
        if len(found) == len(active):
            return {}  # each slower than another, by different blocks: nothing is certain
        return {slow: fast for slow, (_, fast) in found.items()}

    def close(self, a: str, b: str, taken: Sequence[int]) -> bool:
        """Whether two differ by less than is worth while."""
        interval = self.compare(a, b, taken)
        return interval is not None and interval.within(self._plan.worthwhile)

    def settled(self, leader: str, reference: str, taken: Sequence[int]) -> bool:
        """Whether they differ for certain, or by less than is worth while."""
        interval = self.compare(leader, reference, taken)
        return interval is not None and (interval.significant or interval.within(self._plan.worthwhile))

    def _choices(self, a: str, b: str) -> int:
        for arm in (a, b):
            if arm not in self._plan.arms:
                raise ValueError(f"the plan has no {arm!r}, only {', '.join(self._plan.arms)}")
        if a == b:
            raise ValueError(f"{a} cannot be compared with itself")
        k = len(self._plan.leaders)
        leaders = sum(arm in self._plan.leaders for arm in (a, b))
        if leaders == 2:
            return k - 1
        return k if leaders == 1 else 1


def _log_rates(scores: Iterable[Score]) -> dict[str, dict[int, float]]:
    """The logarithm of each rate by arm and block."""
    rates: dict[str, dict[int, float]] = {}
    for score in sorted(scores, key=lambda score: score.order):
        rates.setdefault(score.arm, {})[score.block] = log(score.rate)
    return rates


def _log_ratios(rates: Mapping[str, Mapping[int, float]], a: str, b: str) -> dict[int, float]:
    """Of two arms, by block."""
    other = rates.get(b, {})
    return {block: own - other[block] for block, own in rates.get(a, {}).items() if block in other}


def _mean(values: Collection[float]) -> float:
    return fsum(values) / len(values) if values else -inf
