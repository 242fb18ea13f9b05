"""Memory that has to stay free on a card, and whether a launch left it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.outcome import Kind, Outcome, Phase, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.launch import LaunchResult
    from tuner.core.rig import Device

MINIMUM_MIB = 256
MINIMUM_FRACTION = 0.02


def default_reserve_mib(device: Device) -> int:
    """MiB to keep free where the user does not say.

    As much as others use already (a desktop grows), at least 256 MiB and at least 2 % of the card. Nothing on
    a device whose memory the user has stated: that figure is what may be used.
    """
    if device.stated:
        return 0
    return max(MINIMUM_MIB, round(device.total_mib * MINIMUM_FRACTION), device.used_by_others_mib)


def over_reserve(
    result: LaunchResult, devices: tuple[Device, ...], reserve_mib: Mapping[str, int]
) -> Outcome | None:
    """The outcome of a launch that worked but left too little free; None where all is well or unknown.

    The driver's figure decides; where there is none, a device's stated memory less the engine's buffers.
    """
    for device in devices:
        wanted = reserve_mib.get(device.name, 0)
        free: float | None = result.free_mib.get(device.name)
        if free is None and device.stated and device.name in result.buffers_mib:
            free = device.total_mib - result.buffers_mib[device.name]
        if free is not None and free < wanted:
            return Outcome(
                Kind.OUT_OF_MEMORY,
                phase=Phase.BENCHMARK,
                stage=Stage.RUNTIME,
                device=device.name,
                evidence=f"{free:,.0f} MiB left free on {device.name}, {wanted:,} MiB are to stay free",
            )
    return None
