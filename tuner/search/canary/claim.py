"""What a result claims, and whether launches of now bear it out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, hypot, log
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.search.canary.verdict import WIDE
from tuner.search.confirmation.interval import paired
from tuner.search.confirmation.looks import ALPHA, alpha_at
from tuner.search.confirmation.state import complete_blocks, launches_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.interval import Interval
    from tuner.search.confirmation.state import Confirmation

#: Blocks after which it is looked at, beside the last.
_LOOKS = (3, 5)
#: How far off a ratio may be that was never confirmed, as a part.
_UNCONFIRMED = 0.05


@dataclass(frozen=True, slots=True)
class Claim:
    """So many times as fast as a reference.

    Args:
        reference: Its name, such as `engine-default`.
        ratio: The winner over it.
        half_log: Half the width of its interval, as a logarithm.
    """

    reference: str
    ratio: float
    half_log: float

    @property
    def low(self) -> float:
        """The least that it says."""
        return self.ratio * exp(-self.half_log)

    @property
    def high(self) -> float:
        """The most that it says."""
        return self.ratio * exp(self.half_log)

    def holds(self, measured: Interval) -> bool:
        """Whether what was measured now is not below it for certain, given what both may be off."""
        return log(self.ratio / measured.ratio) <= self._off(measured)

    def shortfall(self, measured: Interval) -> float:
        """How far below it the truth may still be, as a part of it; 0 for not at all."""
        return max(1 - exp(log(measured.ratio / self.ratio) - self._off(measured)), 0.0)

    def _off(self, measured: Interval) -> float:
        """How far claim and measurement may be off together, as a logarithm."""
        return hypot(log(measured.high / measured.low) / 2, self.half_log)


def until_known(
    claim: Claim, canary: Confirmation, records: Sequence[TrialRecord], *, best: str, reference: str
) -> Confirmation:
    """The canary, closed where it is known whether the claim holds; it is looked at after 3, 5 and all blocks.

    Args:
        claim: What is to be known.
        canary: Where the canary stands.
        records: Its trials.
        best: The winner's key.
        reference: The reference's.
    """
    if canary.closed or complete_blocks(canary, records) not in _LOOKS:
        return canary
    measured = measured_ratio(canary, records, best=best, reference=reference)
    if measured is None or (claim.holds(measured) and claim.shortfall(measured) > WIDE):
        return canary
    blocks = complete_blocks(canary, records)
    return replace(canary, closed=MappingProxyType({best: blocks, reference: blocks}))


def measured_ratio(
    canary: Confirmation, records: Sequence[TrialRecord], *, best: str, reference: str
) -> Interval | None:
    """What a canary measured of a claim; None for fewer than two blocks that have both.

    All looks together miss the true ratio in 5 % of measurements: each may err in proportion to its blocks.

    Args:
        canary: The canary.
        records: Its trials.
        best: The winner's key.
        reference: The reference's.
    """
    rates: dict[str, dict[int, float]] = {best: {}, reference: {}}
    for record in launches_of(canary, records):
        if record.key in rates and record.score is not None:
            rates[record.key][record.errand.block] = record.score
    shared = sorted(rates[best].keys() & rates[reference].keys())
    looks = (*(look for look in _LOOKS if look < canary.plan.blocks), canary.plan.blocks)
    before = max((look for look in looks if look < len(shared)), default=0)
    alpha = alpha_at(len(shared), canary.plan.blocks, previous=before) if shared else ALPHA
    return paired([log(rates[best][block] / rates[reference][block]) for block in shared], float(alpha))


def claim_of(best: Mapping[str, Any]) -> Claim | None:
    """What a best.json says of its winner, against the first reference that it was compared with; None for nothing.

    A file that says two things of one reference is held to the larger.
    """
    confirmation = best.get("confirmation") or {}
    confirmed = {
        row["name"]: row for row in confirmation.get("references", ()) if row["interval"] and row["ratio"]
    }
    for row in best["references"]:
        name, ratio = row["name"], row["winner_ratio"]
        if name not in confirmed and ratio is None:
            continue
        if name == best["winner"]["reference"]:
            continue  # it is compared with itself
        half = log(1 + _UNCONFIRMED)
        if name in confirmed:
            low, high = confirmed[name]["interval"]
            half = log(high / low) / 2
            ratio = max(confirmed[name]["ratio"], ratio or 0.0)
        return Claim(name, ratio, half)
    return None
