"""A ladder of contexts: for each of them the best configuration, so that one sees what more context costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The context that is found out: the largest that fits.
MAX = "max"


@dataclass(frozen=True, slots=True)
class Contexts:
    """What was asked for."""

    tokens: tuple[int, ...]
    """Given ones, the smallest first."""
    with_max: bool
    """Whether the largest that fits is found out, too."""

    @property
    def is_ladder(self) -> bool:
        """Whether these are several, or one that has to be found out."""
        return self.with_max or len(self.tokens) > 1

    @property
    def n_rungs(self) -> int:
        """How many there are."""
        return len(self.tokens) + self.with_max


@dataclass(frozen=True, slots=True)
class Rung:
    """One context, and what came of it."""

    context: int
    is_max: bool
    """Whether it was found out to be the largest."""
    configuration: str | None
    """The winner; None where nothing could be measured."""
    score_tok_s: float | None
    prompt_tok_s: float | None
    launches: int
    out_of_memory: int
    """How many of them ran out of memory."""
    engine_default_tok_s: float | None
    """What the engine's own choice makes there; None where it does not run."""
    ratio: tuple[float, float, float] | None
    """Over the engine's own choice, and its interval; None where that is not known."""
    free_mib: tuple[tuple[str, int], ...]
    """Least that the winner left free, by device; empty where no driver says."""
    command: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        ratio = self.ratio
        return {
            "context": self.context,
            "is_max": self.is_max,
            "configuration": self.configuration,
            "score_tok_s": self.score_tok_s,
            "prompt_tok_s": self.prompt_tok_s,
            "launches": self.launches,
            "out_of_memory": self.out_of_memory,
            "engine_default_tok_s": self.engine_default_tok_s,
            "ratio": None if ratio is None else {"ratio": ratio[0], "interval": list(ratio[1:])},
            "free_mib": dict(self.free_mib),
            "command": self.command,
        }


def share_s(budget_s: float | None, used_s: Sequence[float], n_rungs: int) -> float | None:
    """What the next rung may use: an equal part of what is left for it and those above it.

    Args:
        budget_s: For all; None for any.
        used_s: What each rung below has used.
        n_rungs: How many rungs there are.
    """
    if budget_s is None:
        return None
    return max(budget_s - sum(used_s), 0.0) / max(n_rungs - len(used_s), 1)
