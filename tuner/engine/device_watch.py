"""The memory of the devices while a server runs, where a driver says."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.core.rig import Rig


@dataclass(frozen=True, slots=True)
class DeviceWatch:
    """Looks at the devices of a rig."""

    rig: Rig
    free_mib: Callable[[], Mapping[str, int]] = field(default=lambda: MappingProxyType({}))
    """Free memory by device name, where a driver says; has to be quick and must not raise."""
    kernel_watch: Callable[[], Callable[[], bool | None]] = field(default=lambda: lambda: None)
    """Begins to watch the kernel's out-of-memory killer, and gives what says whether it has killed since."""

    @property
    def endpoints(self) -> Mapping[str, str]:
        """`host:port` of RPC devices to their names."""
        return MappingProxyType({d.description: d.name for d in self.rig.devices if ":" in d.description})

    def fraction(self, free_mib: Mapping[str, int]) -> dict[str, float]:
        """The part of each device's memory that so many MiB are."""
        return {
            device.name: free_mib[device.name] / device.total_mib
            for device in self.rig.devices
            if device.name in free_mib and device.total_mib > 0
        }
