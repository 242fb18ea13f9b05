"""The devices of this machine, as the engine orders and names them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PORT = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class DeviceUser:
    """A process of somebody else's that holds memory on a device."""

    pid: int
    name: str
    used_mib: int | None
    """None where the driver does not say."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device of `llama-server --list-devices`, with what the driver adds to it."""

    name: str
    """The engine's name, such as `CUDA0`."""
    description: str
    """What the engine says of it: a card's product name, or `host:port` of an RPC server."""
    total_mib: int
    free_mib: int
    """Free before the first launch."""
    uuid: str | None = None
    bus_id: str | None = None
    users: tuple[DeviceUser, ...] = ()
    used_by_others_mib: int = 0
    """Memory that was in use before the first launch, where the driver says; else 0."""
    stated: bool = False
    """Whether its memory is what the user stated, since neither engine nor driver can see it."""
    power_limit_w: float | None = None
    pcie_generation: int | None = None
    """The most that card and slot can do together; None where no driver says."""
    pcie_width: int | None = None
    """Lanes, as above."""

    @property
    def identity(self) -> str:
        """What makes this the same device tomorrow: the UUID, else name and description without a port."""
        return device_identity(self.uuid, self.name, self.description)

    @property
    def kind(self) -> str:
        """What it is, whichever machine it is in: a card's product name; of an RPC server nobody can say more."""
        return "RPC server" if _PORT.search(self.description) else self.description


def device_identity(uuid: str | None, name: str, description: str) -> str:
    """What makes a device the same tomorrow: the UUID, else name and description without a port."""
    return uuid or f"{name}:{_PORT.sub('', description)}"


@dataclass(frozen=True, slots=True)
class Rig:
    """The devices that a study may use, in the engine's order."""

    devices: tuple[Device, ...]
    driver: str | None = None
    others: tuple[Device, ...] = ()
    """What the engine lists beside them and the study leaves alone: names are counted over all."""

    @property
    def names(self) -> tuple[str, ...]:
        """The engine's names, in its order."""
        return tuple(device.name for device in self.devices)

    @property
    def identity(self) -> tuple[str, ...]:
        """Identities of all devices, in order; ports of RPC servers are no part of it."""
        return tuple(device.identity for device in self.devices)

    def device(self, name: str) -> Device:
        """The device of that name.

        Raises:
            KeyError: No device has that name.
        """
        for device in self.devices:
            if device.name == name:
                return device
        raise KeyError(name)
