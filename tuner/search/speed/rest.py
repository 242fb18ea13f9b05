"""The part of a turn that is no generation: reading the prompt, and what goes with it.

The speed model says how long a generated token takes. What a turn takes beside it depends on other things (compute,
not bandwidth), so it is taken from like trials: the usual one, and what neighbours make of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tuner.search.speed.surprise import surprise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tuner.core.trial import TrialRecord
    from tuner.search.speed.model import Rows

#: How much it differs between configurations, and how well one launch tells, as logarithms.
_SIGMA, _NOISE = 0.4, 0.03
#: Less than this a token is not told apart from nothing.
_LEAST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Rest:
    """Seconds a generated token that go into something else."""

    seen: Rows
    logs: NDArray[np.float64]
    """Of each trial."""
    usual: float
    """Of all launches, references among them: a logarithm."""

    @classmethod
    def of(cls, seen: Rows, seconds: NDArray[np.float64], records: Sequence[TrialRecord]) -> Rest | None:
        """What trials show; None where the goal counts nothing but generation, or nothing was measured yet.

        Args:
            seen: The trials' configurations.
            seconds: What each of them takes a token beside generating it.
            records: All trials.
        """
        every = [left_s for record in records if (left_s := rest_s(record)) is not None]
        if not any(left_s > 0 for left_s in every):
            return None
        usual = float(np.log(max(float(np.median(every)), _LEAST_S)))
        return cls(seen, np.log(np.maximum(seconds, _LEAST_S)), usual)

    def expected(self, rows: Rows) -> tuple[NDArray[np.float64], float | NDArray[np.float64]]:
        """Seconds a token of configurations, and the standard deviation of their logarithm."""
        off = surprise(rows, self.seen, self.logs - self.usual, np.full(len(self.logs), _NOISE), _SIGMA)
        return np.exp(self.usual + off.mean), off.sigma


def rest_s(record: TrialRecord) -> float | None:
    """Seconds a token that a measured launch took beside generating it; None where it was not measured."""
    whole, decode = record.score, record.decode_tok_s
    return None if whole is None or decode is None else max(1 / whole - 1 / decode, 0.0)


def whole(log_rates: NDArray[np.float64], seconds: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Logarithms of whole rates, out of those of generating and the seconds a token beside it."""
    rates: NDArray[np.float64] = -np.log(np.exp(-log_rates) + seconds)
    return rates
