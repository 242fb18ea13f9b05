"""What a result claims, and whether launches of now bear it out."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot, log
from typing import TYPE_CHECKING, Any

from tuner.search.confirmation.interval import paired
from tuner.search.confirmation.looks import ALPHA
from tuner.search.confirmation.state import launches_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.interval import Interval
    from tuner.search.confirmation.state import Confirmation

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
        half = log(measured.high / measured.low) / 2
        return log(self.ratio / measured.ratio) <= hypot(half, self.half_log)


def measured_ratio(
    canary: Confirmation, records: Sequence[TrialRecord], *, best: str, reference: str
) -> Interval | None:
    """What a canary measured of a claim; None for fewer than two blocks that have both.

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
    return paired([log(rates[best][block] / rates[reference][block]) for block in shared], float(ALPHA))


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
