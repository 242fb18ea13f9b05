"""What a launch's outcome is in the light of what went on around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.disturbance import disturbance
from tuner.core.outcome import Kind, Outcome
from tuner.core.reserve import over_reserve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.launch import LaunchResult, LaunchSpec
    from tuner.core.monitoring import RigReport
    from tuner.core.rig import Device


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was seen beside the server itself."""

    report: RigReport
    slept_s: float | None
    """Seconds that the machine was suspended; None where it was awake."""
    clocks_mhz: Mapping[str, float]
    """The study's median clocks under load, by device."""


def judged(
    result: LaunchResult,
    seen: Surroundings,
    spec: LaunchSpec,
    *,
    devices: tuple[Device, ...],
    reserve_mib: Mapping[str, int],
    disturbed_before: int,
) -> Outcome:
    """The outcome that counts.

    A card that is gone explains everything; a machine that slept explains a time or a hang, but not a lack of
    memory; disturbances and the reserve only matter for what was measured.
    """
    outcome = result.outcome
    if seen.report.lost is not None:
        return Outcome(Kind.DEVICE_ERROR, phase=outcome.phase, evidence=f"GPU is lost: {seen.report.lost}")
    if seen.slept_s is not None and (outcome.policy.measured or outcome.kind in {Kind.HUNG, Kind.TIMED_OUT}):
        return Outcome(
            Kind.DISTURBED,
            phase=outcome.phase,
            evidence=f"the machine slept for {seen.slept_s:.0f} s meanwhile",
        )
    if not outcome.policy.measured:
        return outcome
    report = seen.report
    disturbed = disturbance(
        report.summaries,
        study_clock_mhz=seen.clocks_mhz,
        others_before_mib=report.others_before_mib,
        others_now_mib=report.others_now_mib,
    )
    if disturbed is not None:
        if disturbed_before < disturbed.policy.retries:
            return disturbed
        # a card that always throttles would leave nothing measured: what is always so is the rig's speed
        outcome = replace(outcome, evidence=f"measured though disturbed each time: {disturbed.evidence}")
    over = None if spec.candidate is None else over_reserve(result, devices, reserve_mib)
    return over or outcome
