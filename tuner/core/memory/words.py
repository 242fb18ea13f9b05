"""What is said of launches that were not made because they cannot fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GIB = 1024


@dataclass(frozen=True, slots=True)
class NotLaunched:
    """A candidate that was not launched because it would have exceeded a device."""

    key: str
    """Equal for equal candidates only; short, since there are many."""
    device: str
    """The engine's name of the device that it exceeds most surely."""
    over_mib: int

    def to_json(self) -> list[Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return [self.key, self.device, self.over_mib]

    @classmethod
    def from_json(cls, row: list[Any]) -> NotLaunched:
        """Read what `to_json` made."""
        key, device, over_mib = row
        return cls(str(key), str(device), int(over_mib))


def not_launched_sentences(rows: Iterable[NotLaunched], labels: Mapping[str, str]) -> list[str]:
    """One sentence a device: how many candidates exceed it, and by how much.

    Args:
        rows: Candidates that were not launched.
        labels: What people call a device, by the engine's name.
    """
    by_device: dict[str, list[int]] = {}
    for row in rows:
        by_device.setdefault(row.device, []).append(row.over_mib)
    sentences = []
    for device, over in by_device.items():
        least, most = size(min(over)), size(max(over))
        amount = least if least == most else f"{least} to {most}"
        they = "it exceeds" if len(over) == 1 else "they exceed"
        sentences.append(f"{len(over):,} not launched: {they} {labels.get(device, device)} by {amount}")
    return sentences


def size(mib: float) -> str:
    """An amount of memory as people say it: MiB below a GiB, else GiB."""
    return f"{mib:,.0f} MiB" if abs(mib) < _GIB else f"{mib / _GIB:,.1f} GiB"
