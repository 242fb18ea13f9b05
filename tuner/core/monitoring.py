"""What was seen of the rig while a launch was measured, and what a study's launches have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.telemetry import GpuSummary
    from tuner.core.trial import TrialRecord


@dataclass(frozen=True, slots=True)
class RigReport:
    """What was seen during one launch; empty where no driver says anything."""

    summaries: Mapping[str, GpuSummary] = field(default_factory=lambda: MappingProxyType({}))
    """Telemetry of the measured part, by device."""
    others_before_mib: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """What others are expected to use, by device."""
    others_now_mib: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """What others used, by device."""
    lost: str | None = None
    """What the driver says of a card that is gone."""


def study_clocks_mhz(records: Sequence[TrialRecord]) -> dict[str, float]:
    """The median, over measured trials, of each card's clock under load; a card that does not say is missing."""
    clocks: dict[str, list[float]] = {}
    for record in records:
        if record.result is None or record.score is None:
            continue
        for device, summary in record.result.telemetry.items():
            if summary.sm_clock_mhz is not None:
                clocks.setdefault(device, []).append(summary.sm_clock_mhz)
    return {device: median(values) for device, values in clocks.items()}
