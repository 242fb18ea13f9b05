"""A row of the table of engine by file: what came of one engine with one file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.core.quality import Loss


@dataclass(frozen=True, slots=True)
class Row:
    """One engine with one file, and what came of it."""

    name: str
    """Of its study, which is a folder of that name."""
    engine: str
    file: str
    size_bytes: int
    configuration: str | None
    """The best; None where nothing could be measured."""
    reference: str | None
    """Set where nothing was found that is faster than this reference."""
    command: str | None
    score_tok_s: float | None
    """By its own study."""
    beside_tok_s: float | None
    """Beside the other winners; None where it was not launched beside them."""
    ratio: tuple[float, float, float] | None
    """Over the winner of all, and its interval; None for that itself, and where it is not known."""
    prompt_tok_s: float | None
    classes_tok_s: tuple[tuple[str, float], ...]
    """By class of prompts."""
    engine_default_tok_s: float | None
    """What the engine's own choice makes; None where it does not run."""
    context_tokens: int
    """The largest context that the best was launched with."""
    context_tok_s: float | None
    """What it made there."""
    expected_context_tokens: int | None
    """The largest that it is expected to fit with, where that was not launched."""
    free_mib: tuple[tuple[str, int], ...]
    """Least that the best left free, by device; empty where no driver says."""
    loss: Loss | None
    """How far its answers are from the largest file's; None where that is not known."""
    is_reference: bool
    """Whether it is the one that the others' answers are compared with."""
    launches: int
    out_of_memory: int
    """How many of them ran out of memory."""
    out: tuple[str | None, str, int] | None
    """Who is better, why it lost, and after how many launches; None where it did not."""
    is_worth_having: bool = False
    """Whether no other beats it in speed, context and answers."""
    is_winner: bool = False

    @property
    def off_nats(self) -> float | None:
        """How far its answers are from the largest file's; None where nobody knows."""
        return None if self.loss is None else self.loss.judged_nats

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        ratio, out = self.ratio, self.out
        return {
            **asdict(self),
            "ratio": None if ratio is None else {"ratio": ratio[0], "interval": list(ratio[1:])},
            "classes_tok_s": dict(self.classes_tok_s),
            "free_mib": dict(self.free_mib),
            "out": None if out is None else {"by": out[0], "why": out[1], "launches": out[2]},
        }
