"""What drafting yields and costs on average: tokens accepted, drafted and passed through the draft."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

#: Which part of tokens that would be rejected a threshold p spares (times p), and of good ones it costs (times p²).
_SPARED, _LOST = 0.65, 0.25


@dataclass(frozen=True, slots=True)
class Cycle:
    """One draft and its verification, on average."""

    accepted: float
    drafted: float
    """Tokens that are verified."""
    passes: float
    """Runs of the draft: a token that is below the threshold was drafted too."""


NO_DRAFTS = Cycle(0.0, 0.0, 0.0)


@lru_cache(maxsize=4096)
def cycle_of(accepted: tuple[float, ...], n_max: int, p_min: float) -> Cycle:
    """The cycle for a class.

    Args:
        accepted: The probability that a draft is accepted up to and with each position.
        n_max: Tokens drafted at most; further positions go on as the last two did.
        p_min: The draft stops at a token that it is less sure of.
    """
    reached = right = 1.0  # this position is drafted; all before it were accepted
    sums = [0.0, 0.0, 0.0]
    before = 1.0
    for position in range(n_max):
        at = _at(accepted, position)
        agrees = min(at / before, 1.0) if before > 0 else 0.0
        before = min(at, before)
        sums[2] += reached
        spared = (1 - agrees) * min(_SPARED * p_min, 1.0)
        lost = agrees * min(_LOST * p_min * p_min, 1.0)
        reached *= 1 - spared - lost
        right *= agrees * (1 - min(_LOST * p_min * p_min, 1.0))
        sums[0] += right
        sums[1] += reached
    return Cycle(*sums)


def _at(accepted: tuple[float, ...], position: int) -> float:
    """A position's probability; beyond the list it shrinks as it did last."""
    if not accepted:
        return 0.0
    if position < len(accepted):
        return accepted[position]
    ratio = accepted[-1] / accepted[-2] if len(accepted) > 1 and accepted[-2] > 0 else accepted[-1]
    return float(accepted[-1] * min(ratio, 1.0) ** (position - len(accepted) + 1))
