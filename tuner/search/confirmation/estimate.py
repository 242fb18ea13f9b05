"""Means of logarithms that can be added and taken from each other, with what is known of their errors.

A difference that was measured within blocks and one that was measured on another day add up to one that nobody
measured; its degrees of freedom follow Welch (1947, Biometrika 34:28) and Satterthwaite.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, fsum, inf, sqrt
from typing import TYPE_CHECKING

from tuner.search.confirmation.interval import Interval, t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean."""

    mean: float
    variance: float | None
    """Of the mean; None where a single value shows no spread."""
    freedom: float
    """Degrees of freedom of the variance."""
    values: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate | None:
        """The mean of independent values; None without any."""
        n = len(values)
        if n == 0:
            return None
        mean = fsum(values) / n
        if n == 1:
            return cls(mean, None, 0.0, 1)
        return cls(mean, fsum((value - mean) ** 2 for value in values) / (n - 1) / n, n - 1.0, n)

    def plus(self, other: Estimate) -> Estimate:
        """The sum of two that are independent of each other."""
        return self._with(other, self.mean + other.mean)

    def minus(self, other: Estimate) -> Estimate:
        """The difference of two that are independent of each other."""
        return self._with(other, self.mean - other.mean)

    def _with(self, other: Estimate, mean: float) -> Estimate:
        values = min(self.values, other.values)
        if self.variance is None or other.variance is None:
            return Estimate(mean, None, 0.0, values)
        variance = self.variance + other.variance
        below = self.variance**2 / self.freedom + other.variance**2 / other.freedom
        freedom = variance**2 / below if below > 0 else inf
        return Estimate(mean, variance, min(freedom, self.freedom + other.freedom), values)

    @property
    def sigma(self) -> float | None:
        """Standard deviation of the mean; None where no spread is known."""
        return None if self.variance is None else sqrt(self.variance)

    @property
    def of_one(self) -> float | None:
        """Standard deviation of a single value."""
        return None if self.variance is None else sqrt(self.variance * self.values)

    @property
    def ratio(self) -> float:
        """What it is the logarithm of."""
        return exp(self.mean)

    def interval(self, alpha: float) -> Interval | None:
        """The two-sided interval; None where no spread is known.

        Args:
            alpha: How often it may miss, between 0 and 1.
        """
        if self.variance is None:
            return None
        half = t_quantile(alpha, self.freedom) * sqrt(self.variance)
        return Interval(
            ratio=exp(self.mean),
            low=exp(self.mean - half),
            high=exp(self.mean + half),
            blocks=self.values,
            alpha=alpha,
        )
