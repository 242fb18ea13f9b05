"""Whether a trial's speed is that of its candidate, or that of a hot card, a slow clock or somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.telemetry import SLOWED, GpuSummary, Throttle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tuner.core.rig import DeviceUser


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is still the usual noise of a rig."""

    throttled_share: float = 0.05
    """Part of the readings in which a card may have been slowed."""
    clock_fall: float = 0.10
    """How far the clock under load may be below that of earlier trials."""
    capped_share: float = 0.5
    """A card that was at its power limit for this part of the readings has its clock from there."""
    loaded_samples: int = 5
    """Fewer readings under load than this say nothing of a clock: it takes a moment to rise."""
    others_mib: int = 256
    others_fraction: float = 0.20
    """How much more others may use than at the start of the study: what is more than both counts."""


USUAL = Tolerance()


def disturbance(
    summaries: Mapping[str, GpuSummary],
    *,
    study_clock_mhz: Mapping[str, float],
    others_before_mib: Mapping[str, int],
    others_now_mib: Mapping[str, int],
    tolerance: Tolerance = USUAL,
) -> Outcome | None:
    """The outcome of a trial that was disturbed; None where all was as usual, or nothing is known.

    Others are compared with the start of the study, so a desktop that is always busy disturbs no trial. A
    clock that falls while the card is at its power limit is the candidate's own doing.

    Args:
        summaries: The trial's telemetry while it was measured, by device.
        study_clock_mhz: The median, over earlier trials, of the clock under load, by device.
        others_before_mib: What others used at the start of the study, by device.
        others_now_mib: What others used during the trial, by device.
        tolerance: What is still usual.
    """
    seen = [
        *((name, _slowed(summary, tolerance)) for name, summary in summaries.items()),
        *(
            (name, _crowded(others_before_mib.get(name), now, tolerance))
            for name, now in others_now_mib.items()
        ),
        *(
            (name, _clock_fell(summary, study_clock_mhz.get(name), tolerance))
            for name, summary in summaries.items()
        ),
    ]
    found = [(device, evidence) for device, evidence in seen if evidence is not None]
    if not found:
        return None
    return Outcome(
        Kind.DISTURBED,
        phase=Phase.BENCHMARK,
        device=found[0][0],
        evidence="; ".join(f"{device} {evidence}" for device, evidence in found),
    )


def others_mib(users: Iterable[DeviceUser]) -> int:
    """What these processes use together, as far as the driver says."""
    return sum(user.used_mib or 0 for user in users)


def usual_others_mib(
    before_mib: Mapping[str, int],
    latest_mib: Sequence[Mapping[str, int]],
    *,
    trials: int = 3,
    tolerance: Tolerance = USUAL,
) -> dict[str, int]:
    """What others are to be compared with from now on.

    Somebody who came during the study and stays would otherwise disturb every trial to its end. Whoever was
    there in each of the latest trials is a condition of the study, as whoever was there at its start.

    Args:
        before_mib: What they were compared with so far, by device.
        latest_mib: What others used in each trial, the latest last.
        trials: How many trials somebody has to stay.
        tolerance: What is still usual.
    """
    recent = latest_mib[-trials:]
    usual = dict(before_mib)
    if len(recent) < trials:
        return usual
    for device, before in before_mib.items():
        least = min(now.get(device, before) for now in recent)
        if _crowded(before, least, tolerance) is not None:
            usual[device] = least
    return usual


def _slowed(summary: GpuSummary, tolerance: Tolerance) -> str | None:
    shares = {reason: summary.throttle[reason] for reason in SLOWED if reason in summary.throttle}
    if not shares:
        return None
    # A reason of the hardware comes with the general one, which says less.
    reason = max(shares, key=lambda one: (shares[one], one is not Throttle.HW_SLOWDOWN, one))
    if shares[reason] <= tolerance.throttled_share:
        return None
    hot = "" if summary.temperature_max_c is None else f", up to {summary.temperature_max_c:.0f} °C"
    return f"throttled ({reason}) in {shares[reason]:.0%} of the readings{hot}"


def _crowded(before_mib: int | None, now_mib: int, tolerance: Tolerance) -> str | None:
    if before_mib is None:
        return None
    more_mib = now_mib - before_mib
    if more_mib <= tolerance.others_mib or more_mib <= tolerance.others_fraction * before_mib:
        return None
    return f"was used by others with {now_mib:,} MiB, {before_mib:,} MiB at the start of the study"


def _clock_fell(summary: GpuSummary, usual_mhz: float | None, tolerance: Tolerance) -> str | None:
    clock_mhz = summary.sm_clock_mhz
    if usual_mhz is None or clock_mhz is None or summary.loaded_samples < tolerance.loaded_samples:
        return None
    if summary.throttle.get(Throttle.SW_POWER_CAP, 0.0) >= tolerance.capped_share:
        return None
    if clock_mhz >= usual_mhz * (1 - tolerance.clock_fall):
        return None
    return f"ran at {clock_mhz:,.0f} MHz under load, {usual_mhz:,.0f} MHz in earlier trials"
