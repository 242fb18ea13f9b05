"""Whether two rigs are alike: by what one configuration makes on each."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Launches of the same on one rig differ by at least so much, as a standard deviation of the logarithm.
_LEAST_SIGMA = 0.01
#: Rigs that differ by less are alike for what is searched here.
_SAME = 0.03
_STANDARD_ERRORS = 3.0
#: So many launches a rig are made before one is called different.
ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Likeness:
    """How one rig compares with another."""

    ratio: float
    """What it makes as a part of what the other makes."""
    noise: float
    """By which part they may differ and still be alike."""
    launches: int
    """That it was measured by on this rig."""

    @property
    def alike(self) -> bool:
        """Whether the difference is within the noise."""
        return abs(log(self.ratio)) <= log(1 + self.noise)

    @property
    def is_different(self) -> bool:
        """Whether it is beyond the noise, by enough launches to say so."""
        return not self.alike and self.launches >= ENOUGH


def likeness(own: Sequence[float], theirs: Sequence[float]) -> Likeness:
    """Compare two rigs by the launches of one configuration.

    Args:
        own: What it made on this rig, tok/s, a launch each; at least one.
        theirs: The same on the other.
    """
    sides = [[log(rate) for rate in side] for side in (own, theirs)]
    means = [fmean(side) for side in sides]
    freedom = sum(len(side) - 1 for side in sides)
    sigma = _LEAST_SIGMA
    if freedom >= ENOUGH - 1:
        squares = sum((one - mean) ** 2 for side, mean in zip(sides, means, strict=True) for one in side)
        sigma = max(sigma, sqrt(squares / freedom))
    noise = _STANDARD_ERRORS * sigma * sqrt(sum(1 / len(side) for side in sides))
    return Likeness(exp(means[0] - means[1]), max(_SAME, exp(noise) - 1), len(own))
