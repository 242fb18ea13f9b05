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


def slow_links(records: Sequence[TrialRecord]) -> list[str]:
    """Sentences on cards whose PCIe link was slower under load than that of another card.

    Only a launch shows it: idle links rest. The fastest link that a card ever showed counts.
    """
    links: dict[str, tuple[int, int]] = {}
    for record in records:
        if record.result is None or record.score is None:
            continue
        for device, summary in record.result.telemetry.items():
            if summary.pcie_gen is not None and summary.pcie_width is not None:
                link = (summary.pcie_gen, summary.pcie_width)
                links[device] = max(links.get(device, link), link, key=_lane_rate)
    if not links:
        return []
    best = max(links.values(), key=_lane_rate)
    return [
        f"{device} ran PCIe Gen {link[0]} x{link[1]} under load, another card Gen {best[0]} x{best[1]}"
        for device, link in links.items()
        if _lane_rate(link) < _lane_rate(best)
    ]


def _lane_rate(link: tuple[int, int]) -> int:
    """What a link carries, in lanes of Gen 1: each generation doubles a lane."""
    generation, width = link
    return width << generation
