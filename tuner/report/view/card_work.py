"""What each card did while the winner generated: busy, waiting, watts, joules a token, PCIe; in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tuner.core.measurement import counted
from tuner.core.telemetry import GpuSummary, joules_a_token, summarise
from tuner.report.headline import winning
from tuner.report.view.table import Table, table
from tuner.report.words import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.launch import LaunchResult
    from tuner.core.telemetry import GpuReading
    from tuner.core.trial import TrialRecord
    from tuner.report.view.inputs import ReportInputs

#: A card that is used less than this has nothing to do.
_IDLE_PCT = 5.0
#: A card that is used more than this has hardly anything to wait for.
_FULL_PCT = 95.0
_LEAST_READINGS = 3
_NO_DRIVER = (
    "No driver reports what these devices do (NVML knows NVIDIA's cards of this machine), so busy, waiting, watts "
    "and PCIe are not known."
)


@dataclass(frozen=True, slots=True)
class CardWork:
    """One card."""

    device: str
    summary: GpuSummary

    @property
    def busy_pct(self) -> float | None:
        """Part of the time in which it computed; None where the driver does not say."""
        return self.summary.utilisation_pct


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """The section."""

    cards: tuple[CardWork, ...]
    """Empty where no driver says anything."""
    joules_a_token: float | None
    prompts_included: bool
    """Whether the time in which prompts were read is in it: where the readings themselves are gone."""
    sentences: tuple[str, ...]


def decode_work(inputs: ReportInputs) -> DecodeWork | None:
    """The section; None as long as nothing was measured."""
    winner = winning(inputs.records, inputs.confirmation)
    if winner is None or winner.result is None:
        return None
    last = next((one for one in reversed(inputs.records) if one.number == winner.number), winner)
    result = last.result if last.result is not None else winner.result
    decoding = summarise(decode_readings(inputs.series, result))
    whole = not decoding or any(one.samples < _LEAST_READINGS for one in decoding.values())
    found = dict(result.telemetry) if whole else decoding
    tokens = sum(max(sample.predicted_n - 1, 0) for sample in result.samples if counted(sample))
    cards = tuple(CardWork(device, summary) for device, summary in found.items())
    joules = joules_a_token(found, tokens) if found else None
    return DecodeWork(cards, joules, whole, tuple(_sentences(last, cards, joules, prompts_included=whole)))


def decode_readings(series: Sequence[GpuReading], result: LaunchResult) -> list[GpuReading]:
    """The readings that fall between a request's first token and its last.

    Times are moved together: what lies between two requests has no part in rates and energies.

    Args:
        series: Of the whole launch, from the start of the server on.
        result: Of that launch.
    """
    measured_from_s = result.load_s + result.warmup_s
    spans = [
        (measured_from_s + one.began_s + one.ttft_s, measured_from_s + one.began_s + one.wall_s)
        for one in result.samples
        if counted(one)
    ]
    return _joined([one for one in series if any(since <= one.time_s <= until for since, until in spans)])


def work_table(section: DecodeWork) -> Table:
    """The figures."""
    rows = [
        (
            card.device,
            number(card.busy_pct, ".0f", " %"),
            number(None if card.busy_pct is None else 100 - card.busy_pct, ".0f", " %"),
            number(card.summary.watts, ".0f"),
            number(card.summary.sm_clock_mhz, ".0f"),
            number(card.summary.temperature_max_c, ".0f"),
            _link(card.summary),
            _traffic(card.summary),
        )
        for card in section.cards
    ]
    return table("card|>busy|>waiting|>watts|>MHz|>°C at most|link|>MiB/s out, in", rows)


def _joined(readings: Sequence[GpuReading]) -> list[GpuReading]:
    """Each device's readings with gaps between requests cut out, so that energy counts decoding alone."""
    by_device: dict[str, list[GpuReading]] = {}
    for reading in sorted(readings, key=lambda one: one.time_s):
        by_device.setdefault(reading.device, []).append(reading)
    found = []
    for rows in by_device.values():
        steps = [later.time_s - sooner.time_s for sooner, later in pairwise(rows)]
        usual_s = sorted(steps)[len(steps) // 2] if steps else 0.0
        at_s = 0.0
        for place, row in enumerate(rows):
            at_s += min(steps[place - 1], 2 * usual_s) if place else 0.0
            # the counter runs on through what is cut out: power alone says what decoding took
            found.append(replace(row, time_s=at_s, energy_j=None))
    return found


def _link(summary: GpuSummary) -> str:
    if summary.pcie_gen is None or summary.pcie_width is None:
        return "-"
    return f"PCIe Gen {summary.pcie_gen} x{summary.pcie_width}"


def _traffic(summary: GpuSummary) -> str:
    if summary.pcie_tx_mib_s is None or summary.pcie_rx_mib_s is None:
        return "-"
    return f"{summary.pcie_tx_mib_s:,.0f}, {summary.pcie_rx_mib_s:,.0f}"


def _sentences(
    winner: TrialRecord, cards: Sequence[CardWork], joules: float | None, *, prompts_included: bool
) -> list[str]:
    if not cards:
        return [_NO_DRIVER]
    mode = "layer" if winner.candidate is None else str(winner.candidate.get("split-mode"))
    when = "while it answered, prompts included," if prompts_included else "while it generated"
    lines = [
        f"{card.device} was busy {card.busy_pct:.0f} % of the time {when} and waited {100 - card.busy_pct:.0f} %"
        f"{_at(card.summary)}."
        for card in cards
        if card.busy_pct is not None
    ]
    lines += _meaning(mode, {card.device: card.busy_pct for card in cards if card.busy_pct is not None})
    if joules is not None:
        lines.append(
            f"A generated token took {joules:.2f} J of the cards; the rest of the machine has no counter."
        )
    lines += [
        f"{card.device} was held back: {_throttled(card.summary)}." for card in cards if card.summary.throttle
    ]
    return lines


def _at(summary: GpuSummary) -> str:
    parts = [] if summary.watts is None else [f"at {summary.watts:.0f} W"]
    if summary.pcie_gen is not None and summary.pcie_width is not None:
        parts.append(f"over {_link(summary)}")
    return f", {', '.join(parts)}" if parts else ""


def _throttled(summary: GpuSummary) -> str:
    return ", ".join(f"{reason} in {part:.0%} of the readings" for reason, part in summary.throttle.items())


def _meaning(mode: str, busy_pct: Mapping[str, float]) -> list[str]:
    """What waiting means in that split mode."""
    idle = [device for device, busy in busy_pct.items() if busy < _IDLE_PCT]
    if len(busy_pct) < 2:
        return []
    if mode == "none" and idle:
        return [
            f"Only one card is used; {', '.join(idle)} has nothing to do. That is what this command asks for."
        ]
    if mode == "layer":
        return [
            "In layer mode the cards work one after the other, so one card always waits: that is not a fault."
        ]
    if mode == "tensor":
        least = min(busy_pct, key=lambda device: busy_pct[device])
        if all(busy > _FULL_PCT for busy in busy_pct.values()):
            return ["In tensor mode the cards work side by side; here hardly any of them waits."]
        return [
            "In tensor mode the cards work side by side and wait for each other in every layer.",
            f"{least} waits most: it has the smaller share for its speed, or the sums take long.",
        ]
    return []
