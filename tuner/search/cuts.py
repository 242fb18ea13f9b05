"""A split over n devices as n-1 sorted cuts: every list of cuts is a split that gives each device a part."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import floor


def split_of(cuts: list[int], steps: int) -> tuple[int, ...]:
    """Parts from cuts in `0..steps-n`; each device has at least one."""
    free = steps - len(cuts) - 1
    edges = [0, *sorted(cuts), free]
    return tuple(right - left + 1 for left, right in pairwise(edges))


def cuts_of(wanted: tuple[int, ...], free: int, *, rounded_up: bool) -> list[int]:
    """The inverse of `split_of`, for the nearest split on the grid.

    Units of layer mode are shares of the grid that were rounded up, so rounding down leads back to them.

    Args:
        wanted: Proportions, one a device.
        free: Parts of the grid beyond the one that each device has.
        rounded_up: Whether the proportions are shares that were rounded up.
    """
    n = len(wanted)
    cuts: list[int] = []
    for device in range(1, n):
        share = Fraction(sum(wanted[:device]) * (free + n), sum(wanted) or n)
        edge = floor(share) if rounded_up else round(share)
        cuts.append(min(max(edge - device, cuts[-1] if cuts else 0), free))
    return cuts
