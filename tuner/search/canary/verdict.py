"""What a canary says of what was best: unchanged, faster, slower, broken, or with other answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import log
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.trial import Purpose
from tuner.search.confirmation.estimate import Estimate
from tuner.search.confirmation.looks import ALPHA
from tuner.search.confirmation.state import launches_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord
    from tuner.search.canary.arms import Arms
    from tuner.search.confirmation.interval import Interval
    from tuner.search.confirmation.state import Confirmation


#: A loss that cannot be excluded and is less than this, as a part, is not worth further launches.
WIDE = 0.15


class Verdict(StrEnum):
    """What has become of what was best."""

    UNCHANGED = "unchanged"
    FASTER = "faster"
    SLOWER = "slower"
    BROKEN = "broken"
    OUTPUT_CHANGED = "output changed"
    UNKNOWN = "unknown"
    """It was not launched often enough to say."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second of one configuration, launch by launch."""

    now: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """By block of the canary; launches outside of it have numbers below 0."""
    then: tuple[float, ...] = ()
    """What it made when it was compared before, in no order that means anything here."""

    @property
    def level_now(self) -> Estimate | None:
        """The mean logarithm of now."""
        return Estimate.of([log(rate) for rate in self.now.values()])

    @property
    def level_then(self) -> Estimate | None:
        """The mean logarithm of then."""
        return Estimate.of([log(rate) for rate in self.then])


@dataclass(frozen=True, slots=True)
class Change:
    """How much faster a configuration is now than it was."""

    estimate: Estimate
    in_turns: bool
    """Whether both were launched in turns; else what was recorded then stands for it, and a change of the machine
    counts, too."""

    @property
    def ratio(self) -> float:
        """Now over then."""
        return self.estimate.ratio

    @property
    def interval(self) -> Interval | None:
        """At 95 %; None where a launch shows no spread."""
        return self.estimate.interval(float(ALPHA))


@dataclass(frozen=True, slots=True)
class Judged:
    """What a canary says."""

    verdict: Verdict
    changes: Mapping[str, Change]
    """By key, of each configuration of which anything is known from before."""
    why: str = ""
    """Of a broken one, or of other answers: what says so."""

    def shortfall(self, key: str) -> float:
        """How much slower a configuration may be now all the same, as a part; 1 where nobody knows."""
        change = self.changes.get(key)
        interval = None if change is None else change.interval
        return 1.0 if interval is None else max(1 - interval.low, 0.0)


def rates_of(
    confirmation: Confirmation, records: Sequence[TrialRecord], then: Mapping[str, Sequence[float]]
) -> dict[str, Rates]:
    """What each arm of a canary, and what was searched after it, made, and what it had made before.

    Args:
        confirmation: The canary.
        records: All trials.
        then: What was made before, by the keys of now.
    """
    now: dict[str, dict[int, float]] = {}
    in_turns = {record.number for record in launches_of(confirmation, records)}
    for record in records:
        if record.number in in_turns:
            block = record.errand.block
        elif record.errand.purpose is Purpose.SEARCH:
            block = -1 - record.number
        else:
            continue
        if record.score is not None:
            now.setdefault(record.key, {})[block] = record.score
    keys = dict.fromkeys((*now, *then))
    return {key: Rates(MappingProxyType(now.get(key, {})), tuple(then.get(key, ()))) for key in keys}


def changes_of(arms: Arms, rates: Mapping[str, Rates]) -> dict[str, Change]:
    """How much faster each configuration is now than it was.

    What was best is compared with itself as it was, launched in turns. Others were not launched as they were: of
    them it is known how they compared with the best then, and how they compare now with the best as it was. Where
    nothing is left of what was, the records of then stand for it.
    """
    previous = None if arms.previous is None else rates.get(arms.previous)
    best = rates.get(arms.best)
    found: dict[str, Change] = {}
    for key, own in rates.items():
        if key == arms.previous:
            continue
        if previous is not None and previous.now:
            beside = _in_blocks(own, previous) or _levels(own.level_now, previous.level_now)
            if beside is None:
                continue
            if key == arms.best:
                found[key] = Change(beside, in_turns=True)
                continue
            before = None if best is None else _levels(best.level_then, own.level_then)
            if before is not None:
                found[key] = Change(beside.plus(before), in_turns=True)
        elif (recorded := _levels(own.level_now, own.level_then)) is not None:
            found[key] = Change(recorded, in_turns=False)
    return found


def judged(
    arms: Arms,
    confirmation: Confirmation,
    changes: Mapping[str, Change],
    *,
    worthwhile: float,
    other_answers: str | None,
) -> Judged:
    """The verdict.

    Args:
        arms: Who was launched.
        confirmation: The canary.
        changes: From `changes_of`.
        worthwhile: A difference that is worth while, as a part.
        other_answers: Why the answers of what was best are not those of before; None where nothing says so.
    """
    if (why := confirmation.out.get(arms.best)) is not None:
        if other_answers is not None:
            return Judged(Verdict.OUTPUT_CHANGED, changes, other_answers)
        return Judged(Verdict.BROKEN, changes, why)
    if other_answers is not None:
        return Judged(Verdict.OUTPUT_CHANGED, changes, other_answers)
    change = changes.get(arms.best)
    interval = None if change is None else change.interval
    if interval is None:
        return Judged(Verdict.UNKNOWN, changes)
    if not interval.significant or interval.within(worthwhile):
        return Judged(Verdict.UNCHANGED, changes)
    return Judged(Verdict.FASTER if interval.ratio > 1 else Verdict.SLOWER, changes)


def _in_blocks(one: Rates, other: Rates) -> Estimate | None:
    """The logarithm of the ratio, over the blocks that have both."""
    shared = sorted(one.now.keys() & other.now.keys())
    return Estimate.of([log(one.now[block] / other.now[block]) for block in shared])


def _levels(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """The difference of two levels; None where one of them is not known."""
    return None if one is None or other is None else one.minus(other)
