"""Whether the devices are ready for the next launch: their memory is back, and they are cool enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.rig import DeviceUser


@dataclass(frozen=True, slots=True)
class Settled:
    """All is as it should be."""

    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class NotBack:
    """A device's memory is not back at what it was before the first launch."""

    device: str
    """The one that lacks most."""
    missing_mib: int
    holders: tuple[DeviceUser, ...]
    """Who has memory there, as far as the driver says; those that were there all along too."""
    waited_s: float

    @property
    def message(self) -> str:
        """What is wrong, who it is, and what to do."""
        said = (
            f"{self.device} has {self.missing_mib:,} MiB less free than before the first launch, "
            f"after {self.waited_s:.0f} s of waiting"
        )
        if not self.holders:
            return (
                f"{said}, and the driver names no process that has it (it may be in another container, or of "
                "another user). Find it with nvidia-smi and end it"
            )
        held = ", ".join(
            f"{user.name} (process {user.pid}, "
            + ("memory unknown)" if user.used_mib is None else f"{user.used_mib:,} MiB)")
            for user in sorted(self.holders, key=lambda user: -(user.used_mib or 0))
        )
        return (
            f"{said}. In use by: {held}. End what should not be there: the tuner ends nothing that it did not "
            "start"
        )


@dataclass(frozen=True, slots=True)
class TooHot:
    """A device is not as cool as it should be for a launch."""

    device: str
    """The hottest."""
    temperature_c: int
    limit_c: int
    waited_s: float

    @property
    def message(self) -> str:
        """What is wrong, and what to do."""
        return (
            f"{self.device} is at {self.temperature_c} °C after {self.waited_s:.0f} s of waiting for "
            f"{self.limit_c} °C. Better its cooling, or ask for more than it idles at (--cool-to)"
        )


def missing_mib(
    baseline_mib: Mapping[str, int], free_mib: Mapping[str, int], tolerance_mib: int
) -> dict[str, int]:
    """What is missing on devices that have less free than at the baseline, by device.

    A device that does not say now is left out: there is nothing that could be waited for.
    """
    missing = {
        device: baseline - free_mib[device] for device, baseline in baseline_mib.items() if device in free_mib
    }
    return {device: mib for device, mib in missing.items() if mib > tolerance_mib}


def too_hot_c(temperatures_c: Mapping[str, int], limit_c: int) -> dict[str, int]:
    """Temperatures above the limit, by device."""
    return {device: celsius for device, celsius in temperatures_c.items() if celsius > limit_c}
