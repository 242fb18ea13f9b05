"""What a winner went through before it was exported, and what would have disqualified it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Small requests that much slower than at the start are not what was promised; where launches differ by more among
#: themselves, so many of their standard deviations.
MOST_SLOWER, SLOWER_SIGMAS = 0.10, 3.0
#: A device's free memory may shrink by this much: pools grow with the first requests of a kind.
DEVICE_GROWTH_MIB, DEVICE_GROWTH_PART = 64, 0.01
#: llama-server keeps up to 8 GiB of old prompts in host memory (`--cache-ram`); what goes beyond is a leak.
HOST_GROWTH_MIB = 8192 + 1024


@dataclass(frozen=True, slots=True)
class Soaked:
    """What one launch went through."""

    requests: int
    seconds: float
    longest_prompt_tokens: int
    """Tokens of the longest prompt that was read."""
    slot_context: int | None
    """Tokens that a slot holds."""
    longest_answer_tokens: int
    at_once: int
    """Requests that were served at the same time."""
    small_before_tok_s: float | None
    """Small requests at the start; generated tokens a second."""
    small_after_tok_s: float | None
    """The same at the end."""
    longest_gap_s: float
    """The longest that it was left alone."""
    host_growth_mib: float | None
    """What its own host memory grew by, prompts that it keeps included; None where nobody says."""
    free_mib: Mapping[str, int]
    """The least that was free on each device between requests; empty where no driver says."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**row, "free_mib": dict(self.free_mib)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Soaked:
        """Read what `to_json` made.

        Raises:
            TypeError: A field is missing or of another form.
        """
        return cls(**document)


def slower(before_tok_s: float | None, after_tok_s: float | None, spread: float = 0.0) -> float | None:
    """By which part small requests are slower than they were; None where that is not known or allowed.

    Args:
        before_tok_s: What they made.
        after_tok_s: What they make now.
        spread: Standard deviation of what launches of the same make, as a part.
    """
    if not before_tok_s or after_tok_s is None:
        return None
    part = 1 - after_tok_s / before_tok_s
    return part if part > max(MOST_SLOWER, SLOWER_SIGMAS * spread) else None


def grown(
    before_mib: Mapping[str, int], now_mib: Mapping[str, int], total_mib: Mapping[str, int]
) -> tuple[str, int] | None:
    """A device whose free memory has shrunk by more than pools do, and by how much; None where none has."""
    for device, before in before_mib.items():
        lost = before - now_mib.get(device, before)
        if lost > max(DEVICE_GROWTH_MIB, DEVICE_GROWTH_PART * total_mib.get(device, 0)):
            return device, lost
    return None
