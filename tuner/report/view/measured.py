"""The candidates that were measured, each once, with all launches that count for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.trial import disqualified
from tuner.report.best import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.state import Confirmation


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate and what it makes."""

    candidate: Candidate
    record: TrialRecord
    """That stands for it: of the confirmation, all launches together; else of the search."""
    score_tok_s: float
    may_win: bool
    """Whether it could be the best configuration."""

    @property
    def mode(self) -> str:
        """Its split mode."""
        return str(self.candidate.get("split-mode"))


def measured_candidates(records: Sequence[TrialRecord], confirmation: Confirmation | None) -> list[Measured]:
    """All that were measured, in the order in which they were first launched."""
    gone = disqualified(records)
    groups: dict[str, list[TrialRecord]] = {}
    for record in records:
        if record.candidate is not None:
            groups.setdefault(record.key, []).append(record)
    found = []
    for key, own in groups.items():
        if all(record.score is None for record in own):
            continue
        record = shown(key, own, confirmation)
        if record.candidate is not None and record.score is not None:
            may_win = record.may_win and key not in gone
            found.append(Measured(record.candidate, record, record.score, may_win))
    return found


def share_pct(candidate: Candidate, first: str) -> float | None:
    """How much of the model a device holds, in per cent of the split's parts; None where there is no telling.

    Args:
        candidate: Its split, or the one device that it runs on.
        first: The engine's name of the device.
    """
    devices, split = candidate.devices, candidate.split
    if str(candidate.get("split-mode")) == "none" or len(devices) == 1:
        return 100.0 if devices[:1] == (first,) else 0.0
    if len(split) != len(devices) or not sum(split):
        return None
    return (
        100.0 * sum(part for part, device in zip(split, devices, strict=True) if device == first) / sum(split)
    )
