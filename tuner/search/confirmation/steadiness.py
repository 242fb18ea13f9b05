"""What is shown rather than averaged away: how the rig drifted over the launches, and which launch stands out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import exp, fsum, log, sqrt
from statistics import median
from typing import TYPE_CHECKING

from tuner.search.confirmation.interval import t_quantile
from tuner.search.confirmation.looks import ALPHA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tuner.search.confirmation.verdict import Score

#: An outlier is farther off than so many robust standard deviations, and than such a fraction of the rate.
OUTLYING_SIGMAS, OUTLYING = 3.5, 0.01
#: Launches of an arm without which none of them can stand out.
ENOUGH = 4
#: The standard deviation of a normal distribution over its median absolute deviation.
_MAD_SIGMAS = 1.4826
#: Medians fit few launches too closely: with n of them the spread is taken n / (n - 1.5) as great. Played, noise
#: alone then accuses a launch in about one of ten confirmations.
_FITTED = 1.5

_Points = list[tuple[int, float]]
"""Launch numbers, and the logarithm of the rate of each."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How rates changed from the first launch to the last, the same for all arms.

    Args:
        ratio: The last over the first, for one and the same arm; 0.97 is 3 % slower.
        low: The least that the launches allow, at 95 %.
        high: The greatest.
        launches: How many it is from.
    """

    ratio: float
    low: float
    high: float
    launches: int

    @property
    def significant(self) -> bool:
        """Whether there was a drift: 1 is outside."""
        return self.low > 1 or self.high < 1


def drift(scores: Iterable[Score]) -> Drift | None:
    """A straight line through the logarithms of all rates, each arm at its own height; None for too few launches."""
    arms = _by_arm(scores)
    points = [point for arm in arms.values() for point in _around_means(arm)]
    freedom = len(points) - len(arms) - 1
    spread = fsum(x * x for x, _ in points)
    if freedom < 1 or spread == 0:
        return None
    slope = fsum(x * y for x, y in points) / spread
    noise = fsum((y - slope * x) ** 2 for x, y in points) / freedom
    half = t_quantile(float(ALPHA), freedom) * sqrt(noise / spread)
    orders = [order for arm in arms.values() for order, _ in arm]
    far = max(orders) - min(orders)
    low, middle, high = (exp(far * value) for value in (slope - half, slope, slope + half))
    return Drift(ratio=middle, low=low, high=high, launches=len(points))


def outliers(scores: Iterable[Score]) -> tuple[int, ...]:
    """The numbers of launches that stand out from their arm and the drift, in rising order.

    Medians stand for the arm's height, for the drift and for the spread, so that an outlier does not hide itself or
    accuse others. The spread is the arm's own, or that of all arms where it is greater: four launches may agree
    by chance.
    """
    arms = [arm for arm in _by_arm(scores).values() if len(arm) >= ENOUGH]
    slope = _median_slope(arms)
    left = [_around_median(arm, slope) for arm in arms]
    common = _deviation([abs(y) for arm in left for _, y in arm])
    found = []
    for arm in left:
        sigma = max(common, _deviation([abs(y) for _, y in arm])) * len(arm) / (len(arm) - _FITTED)
        limit = max(OUTLYING_SIGMAS * sigma, log(1 + OUTLYING))
        found += [order for order, y in arm if abs(y) > limit]
    return tuple(sorted(found))


def _by_arm(scores: Iterable[Score]) -> Mapping[str, _Points]:
    arms: dict[str, _Points] = {}
    for score in sorted(scores, key=lambda score: score.order):
        arms.setdefault(score.arm, []).append((score.order, log(score.rate)))
    return arms


def _around_means(points: _Points) -> list[tuple[float, float]]:
    x_mean, y_mean = (fsum(values) / len(points) for values in zip(*points, strict=True))
    return [(x - x_mean, y - y_mean) for x, y in points]


def _around_median(points: _Points, slope: float) -> _Points:
    level = median(y - slope * x for x, y in points)
    return [(x, y - slope * x - level) for x, y in points]


def _median_slope(arms: Iterable[_Points]) -> float:
    """The median over the slopes between any two launches of one arm (Theil & Sen)."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for arm in arms for a, b in combinations(arm, 2) if a[0] != b[0]]
    return median(slopes) if slopes else 0.0


def _deviation(sizes: Sequence[float]) -> float:
    return _MAD_SIGMAS * median(sizes) if sizes else 0.0
