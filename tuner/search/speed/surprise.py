"""What the speed model does not explain: a Gaussian process over its errors, and one for what is far off.

Most errors are small and alike for neighbours: the same mode, a like split, a like depth. A few can be large, as
where one combination of options has a bad kernel: those say much of the very combination and little of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuner.search.speed.model import Rows

_LEAST_SIGMA = 0.03
#: An error so many times the usual one is no neighbour of the others.
_FAR_OFF = 5.0
#: From this likeness on two configurations differ in nothing that matters.
_SAME = 0.8
_LEAST_LIKENESS = 1e-3
_MAD_TO_SIGMA = 1.4826
#: Quantities that trials decide, more or less.
_FREE = 6


@dataclass(frozen=True, slots=True)
class Kernel:
    """How alike the errors of two configurations are, from 0 to 1."""

    share: float
    """Distance of splits, as fractions of the bytes, at which likeness falls to 0.6."""
    depth: float
    """The same for the logarithm of the draft depth."""
    mode: float
    """Likeness across split modes."""
    option: float
    """Likeness across a KV type or a way to reduce."""

    def __call__(self, one: Rows, other: Rows) -> NDArray[np.float64]:
        """Rows of the one by rows of the other."""
        first, second = _shares(one), _shares(other)
        distance = ((first[:, None, :] - second[None, :, :]) ** 2).sum(axis=2)
        likeness: NDArray[np.float64] = np.exp(-distance / (2 * self.share**2))
        steps = np.log1p(one.depth)[:, None] - np.log1p(other.depth)[None, :]
        likeness *= np.exp(-(steps**2) / (2 * self.depth**2))
        likeness *= np.where(one.tensor[:, None] == other.tensor[None, :], 1.0, self.mode)
        for name in ("quantised", "internal", "ngram"):
            alike = getattr(one, name)[:, None] == getattr(other, name)[None, :]
            likeness *= np.where(alike, 1.0, self.option)
        return likeness


#: Of small errors.
USUAL = Kernel(share=0.2, depth=0.8, mode=0.2, option=0.8)
_RARE = Kernel(share=0.2, depth=1.0, mode=0.1, option=0.3)


@dataclass(frozen=True, slots=True)
class Surprise:
    """Expected error of configurations and how sure that is, as logarithms of a time."""

    mean: NDArray[np.float64]
    sigma: NDArray[np.float64]


def usual_sigma(residuals: NDArray[np.float64]) -> float:
    """How far off the model usually is: robust, and never taken for nothing."""
    if len(residuals) < 3:
        return 2 * _LEAST_SIGMA
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(residuals)))
    # a fit with some free quantities comes nearer to few trials than it will to others
    n = len(residuals)
    return max(spread * float(np.sqrt(n / max(n - min(_FREE, n // 2), 1))), _LEAST_SIGMA)


def surprise(
    rows: Rows,
    seen: Rows,
    residuals: NDArray[np.float64],
    noise: NDArray[np.float64],
    sigma: float | None = None,
) -> Surprise:
    """What the errors of the trials say of other configurations.

    Args:
        rows: Configurations.
        seen: Those that were measured.
        residuals: Their errors.
        noise: Standard deviations of their measurements.
        sigma: How far off the model usually is; None for what the errors themselves say.
    """
    sigma = usual_sigma(residuals) if sigma is None else sigma
    if not len(residuals):
        return Surprise(np.zeros(len(rows)), np.full(len(rows), sigma))
    far = np.abs(residuals) > _FAR_OFF * sigma
    near = ~far
    mean, variance = np.zeros(len(rows)), np.full(len(rows), sigma**2)
    if near.any():
        places = np.flatnonzero(near)
        known = seen.take(places)
        gram = sigma**2 * USUAL(known, known) + np.diag(noise[places] ** 2)
        across = sigma**2 * USUAL(rows, known)
        solved = np.linalg.solve(gram, across.T)
        mean = solved.T @ residuals[places]
        variance = np.maximum(sigma**2 - (across * solved.T).sum(axis=1), 1e-8)
    if far.any():
        places = np.flatnonzero(far)
        likeness = _RARE(rows, seen.take(places))
        nearest = likeness.argmax(axis=1)
        strongest = likeness.max(axis=1)
        if near.any():  # what is as like to a launch that was as expected is not in question
            against = _RARE(rows, seen.take(np.flatnonzero(near))).max(axis=1)
            strongest = strongest / (1 + (against / np.maximum(strongest, _LEAST_LIKENESS)) ** 4)
        size = residuals[places][nearest]
        # which options of a slow one are at fault is asked elsewhere; it only speaks for its like
        strongest = np.where((size > 0) & (strongest < _SAME), 0.0, strongest)
        mean = mean * (1 - strongest) + strongest * size
        variance = variance + (1 - strongest**2) * (strongest > 0.05) * (size < 0) * (0.5 * size) ** 2
    return Surprise(mean, np.sqrt(variance))


def _shares(rows: Rows) -> NDArray[np.float64]:
    sizes = np.column_stack((rows.read_bytes, rows.host_bytes))
    total = sizes.sum(axis=1, keepdims=True)
    return sizes / np.where(total > 0, total, 1.0)
