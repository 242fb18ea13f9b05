"""How much faster one candidate is than another, from launches side by side.

Student's t on the logarithms of the ratios within blocks: what a block's launches share, such as a warm card, falls
out. With the errors of `looks` these are the repeated confidence intervals of Jennison & Turnbull (1989, JRSS B
51:305): all of them hold together, whenever the confirmation stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import exp, fsum, sqrt
from typing import TYPE_CHECKING

from scipy.special import stdtrit

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio of two rates.

    Args:
        ratio: The geometric mean over blocks, above 0.
        low: The least ratio that the samples allow.
        high: The greatest.
        blocks: How many blocks it is from.
        alpha: How often such an interval misses the true ratio, from 0 to 1, at this look and for this pair alone.
    """

    ratio: float
    low: float
    high: float
    blocks: int
    alpha: float

    @property
    def significant(self) -> bool:
        """Whether the two differ: 1 is outside."""
        return self.low > 1 or self.high < 1

    def within(self, worthwhile: float) -> bool:
        """Whether they differ by less than is worth while, a fraction such as 0.02, for certain."""
        return 1 / (1 + worthwhile) <= self.low and self.high <= 1 + worthwhile


def paired(log_ratios: Sequence[float], alpha: float) -> Interval | None:
    """The two-sided interval of the mean ratio; None for fewer than two pairs.

    Args:
        log_ratios: The logarithm of one rate over the other, one a block.
        alpha: How often the interval may miss, between 0 and 1.

    Raises:
        ValueError: There is no such alpha.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha {alpha:g} is not between 0 and 1")
    n = len(log_ratios)
    if n < 2:
        return None
    mean, variance = _moments(log_ratios)
    half = t_quantile(alpha, n - 1) * sqrt(variance / n)
    return Interval(ratio=exp(mean), low=exp(mean - half), high=exp(mean + half), blocks=n, alpha=alpha)


def unpaired(logs: Sequence[float], other_logs: Sequence[float], alpha: float) -> Interval | None:
    """The two-sided interval of a ratio of launches that were not made side by side; None for fewer than two a side.

    Welch's t on the logarithms (Welch 1947, Biometrika 34:28): nothing that launches share falls out, and what
    differs between two nights is no part of its width.

    Args:
        logs: The logarithm of each rate of the one.
        other_logs: The same of the other.
        alpha: How often the interval may miss, between 0 and 1.
    """
    n, m = len(logs), len(other_logs)
    if min(n, m) < 2:
        return None
    mean, variance = _moments(logs)
    other_mean, other_variance = _moments(other_logs)
    own, theirs = variance / n, other_variance / m
    difference = mean - other_mean
    if own + theirs == 0:
        return Interval(exp(difference), exp(difference), exp(difference), min(n, m), alpha)
    freedom = (own + theirs) ** 2 / (own**2 / (n - 1) + theirs**2 / (m - 1))
    half = t_quantile(alpha, freedom) * sqrt(own + theirs)
    return Interval(exp(difference), exp(difference - half), exp(difference + half), min(n, m), alpha)


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of a sample."""
    mean = fsum(values) / len(values)
    return mean, fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


@cache
def t_quantile(alpha: float, freedom: float) -> float:
    """What Student's t with these degrees of freedom passes, on either side, with probability alpha."""
    return float(stdtrit(freedom, 1 - alpha / 2))
