"""What the driver says of a card from moment to moment, and what that adds up to over a stretch of time."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, median, median_low
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: A card that is used less than this is at rest: its clocks are down and its link is at Gen 1.
LOADED_PCT = 10


class Throttle(StrEnum):
    """Why a card does not run at its highest clocks."""

    IDLE = "idle"
    APPLICATIONS_CLOCKS = "applications-clocks"
    SW_POWER_CAP = "sw-power-cap"
    HW_SLOWDOWN = "hw-slowdown"
    SYNC_BOOST = "sync-boost"
    SW_THERMAL = "sw-thermal"
    HW_THERMAL = "hw-thermal"
    HW_POWER_BRAKE = "hw-power-brake"
    DISPLAY_CLOCK = "display-clock"


#: Reasons that mean that something is wrong: too hot, or short of power.
SLOWED = frozenset({Throttle.HW_SLOWDOWN, Throttle.HW_THERMAL, Throttle.HW_POWER_BRAKE, Throttle.SW_THERMAL})

#: What a summary tells of. A card at its power limit does what it was built to do, but it explains clocks.
REPORTED = SLOWED | {Throttle.SW_POWER_CAP}


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One card at one moment; a field is None where the driver does not say."""

    device: str
    """The engine's name of the card."""
    time_s: float
    """Since the start of the series."""
    used_mib: int | None = None
    utilisation_pct: int | None = None
    memory_utilisation_pct: int | None = None
    """Part of the time in which memory was read or written."""
    power_w: float | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    mem_clock_mhz: int | None = None
    throttle: frozenset[str] | None = None
    """Names of `Throttle`; empty where nothing holds the card back."""
    pcie_gen: int | None = None
    pcie_width: int | None = None
    pcie_tx_mib_s: float | None = None
    pcie_rx_mib_s: float | None = None
    energy_j: float | None = None
    """The card's own counter, which starts with its driver."""

    @property
    def loaded(self) -> bool:
        """Whether the card was at work."""
        return self.utilisation_pct is not None and self.utilisation_pct > LOADED_PCT

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values without those that are unknown; `from_json` is the inverse."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return known if self.throttle is None else {**known, "throttle": sorted(self.throttle)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> GpuReading:
        """Read what `to_json` made.

        Raises:
            TypeError: A field is missing, or is none of ours.
        """
        reading = cls(**document)
        return reading if reading.throttle is None else replace(reading, throttle=frozenset(reading.throttle))


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """What the readings of one card add up to; a field is None where the driver does not say.

    Clocks and the link are those under load, since both rest while a card does.
    """

    samples: int
    loaded_samples: int
    """Readings under load."""
    span_s: float
    """From the first reading to the last."""
    used_min_mib: float | None = None
    used_median_mib: float | None = None
    used_max_mib: float | None = None
    utilisation_pct: float | None = None
    """The mean."""
    power_w: float | None = None
    """The median."""
    temperature_max_c: float | None = None
    sm_clock_mhz: float | None = None
    """The median under load."""
    mem_clock_mhz: float | None = None
    """The median under load."""
    throttle: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Reasons of `REPORTED` that were seen, with the part of the readings in which they were."""
    pcie_gen: int | None = None
    """The median under load."""
    pcie_width: int | None = None
    """The median under load."""
    pcie_tx_mib_s: float | None = None
    """The mean under load."""
    pcie_rx_mib_s: float | None = None
    """The mean under load."""
    energy_j: float | None = None
    """From the card's own counter, else the integral of its power."""
    watts: float | None = None
    """That energy over the time in which it was counted."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "throttle": dict(self.throttle)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> GpuSummary:
        """Read what `to_json` made.

        Raises:
            KeyError: The throttle reasons are missing.
            TypeError: A field is missing, or is none of ours.
        """
        return cls(**{**document, "throttle": MappingProxyType(dict(document["throttle"]))})


def summarise(readings: Iterable[GpuReading]) -> dict[str, GpuSummary]:
    """One summary a device, in the order in which devices first appear."""
    series: dict[str, list[GpuReading]] = {}
    for reading in readings:
        series.setdefault(reading.device, []).append(reading)
    return {device: _summary(sorted(rows, key=lambda row: row.time_s)) for device, rows in series.items()}


def joules_a_token(summaries: Mapping[str, GpuSummary], tokens: int) -> float | None:
    """Energy of all devices over the tokens made meanwhile; None where one of them does not say.

    Only the cards' energy: the rest of the machine has no counter here.
    """
    energies_j = [summary.energy_j for summary in summaries.values() if summary.energy_j is not None]
    if tokens <= 0 or not energies_j or len(energies_j) < len(summaries):
        return None
    return sum(energies_j) / tokens


def _summary(rows: Sequence[GpuReading]) -> GpuSummary:
    loaded = [row for row in rows if row.loaded]
    used_mib = [row.used_mib for row in rows if row.used_mib is not None]
    energy_j, counted_s = _energy(rows)
    return GpuSummary(
        samples=len(rows),
        loaded_samples=len(loaded),
        span_s=rows[-1].time_s - rows[0].time_s,
        used_min_mib=_of(min, used_mib),
        used_median_mib=_of(median, used_mib),
        used_max_mib=_of(max, used_mib),
        utilisation_pct=_of(fmean, (row.utilisation_pct for row in rows)),
        power_w=_of(median, (row.power_w for row in rows)),
        temperature_max_c=_of(max, (row.temperature_c for row in rows)),
        sm_clock_mhz=_of(median, (row.sm_clock_mhz for row in loaded)),
        mem_clock_mhz=_of(median, (row.mem_clock_mhz for row in loaded)),
        throttle=_shares([row.throttle for row in rows if row.throttle is not None]),
        pcie_gen=_usual(row.pcie_gen for row in loaded),
        pcie_width=_usual(row.pcie_width for row in loaded),
        pcie_tx_mib_s=_of(fmean, (row.pcie_tx_mib_s for row in loaded)),
        pcie_rx_mib_s=_of(fmean, (row.pcie_rx_mib_s for row in loaded)),
        energy_j=energy_j,
        watts=energy_j / counted_s if energy_j is not None and counted_s > 0 else None,
    )


def _of(measure: Callable[[list[float]], float], figures: Iterable[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return measure(known) if known else None


def _usual(figures: Iterable[int | None]) -> int | None:
    """The median, and one of the figures in any case: there is no link of generation 2.5."""
    known = [figure for figure in figures if figure is not None]
    return median_low(known) if known else None


def _shares(seen: Sequence[frozenset[str]]) -> Mapping[str, float]:
    counts = Counter(reason for reasons in seen for reason in reasons & REPORTED)
    return MappingProxyType({reason: counts[reason] / len(seen) for reason in sorted(counts)})


def _energy(rows: Sequence[GpuReading]) -> tuple[float | None, float]:
    """Joules, and the seconds in which they were counted."""
    counted = [(row.time_s, row.energy_j) for row in rows if row.energy_j is not None]
    # The counter starts anew with the driver, and would then run backwards.
    if len(counted) > 1 and all(before[1] <= after[1] for before, after in pairwise(counted)):
        return counted[-1][1] - counted[0][1], counted[-1][0] - counted[0][0]
    powers = [(row.time_s, row.power_w) for row in rows if row.power_w is not None]
    if len(powers) < 2:
        return None, 0.0
    joules = sum((later[0] - sooner[0]) * (sooner[1] + later[1]) / 2 for sooner, later in pairwise(powers))
    return joules, powers[-1][0] - powers[0][0]
