"""Which of several choices are worth having: those that no other beats in speed, context and answers at once.

What differs by no more than noise is the same. A choice beats another where it is nowhere clearly worse, somewhere
clearly better, and ahead when all differences are added up, each in units of its own noise. The last condition keeps
three choices that are each a little worse somewhere from beating each other in a circle: nothing is ahead of itself
in a sum. So of any choices at least one is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from tuner.core.quality import BOUND_NATS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Logarithms of ratios that are noise: of two speeds (a launch has a standard deviation of about 2 %), and of two
#: contexts (told apart in steps).
_SPEED, _CONTEXT = log(1.03), log(1.02)
#: The same of two divergences, each with `BOUND_NATS` added: 0 and 0.005 nats are the same, and so are 0.05 and 0.08.
_ANSWERS = log(1.5)


@dataclass(frozen=True, slots=True)
class Worth:
    """What one choice is worth."""

    speed_tok_s: float | None
    """None where nothing was measured."""
    context_tokens: int | None
    """The largest context that it has at that speed."""
    off_nats: float | None
    """How far its answers are from those of the largest file; None where nobody knows."""
    file: str
    """Which model file it is of: where nobody knows how far two are off, the same file is as far off as itself."""


def beats(one: Worth, other: Worth) -> bool:
    """Whether nobody who cares for speed, context and answers would take the other.

    What is not known on either side beats nothing and is beaten by nothing.
    """
    gains = _gains(one, other)
    if gains is None:
        return False
    return min(gains) >= -1 and max(gains) > 1 and sum(gains) > 0


def worth_having(choices: Sequence[Worth]) -> list[int]:
    """Places of those that no other beats, in order: the Pareto set. What was never measured is not in it."""
    return [
        place
        for place, one in enumerate(choices)
        if one.speed_tok_s is not None and not any(beats(other, one) for other in choices)
    ]


def _gains(one: Worth, other: Worth) -> tuple[float, float, float] | None:
    """What one is ahead in speed, context and answers, in units of their noise; None where something is not known."""
    if not one.speed_tok_s or not other.speed_tok_s or not one.context_tokens or not other.context_tokens:
        return None
    if one.off_nats is not None and other.off_nats is not None:
        answers = log((other.off_nats + BOUND_NATS) / (one.off_nats + BOUND_NATS)) / _ANSWERS
    elif one.file == other.file:
        answers = 0.0
    else:
        return None
    return (
        log(one.speed_tok_s / other.speed_tok_s) / _SPEED,
        log(one.context_tokens / other.context_tokens) / _CONTEXT,
        answers,
    )
