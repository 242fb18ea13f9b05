"""The rig: what the engine sees, what the driver knows of it, and what the user states."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.cli.option_values import by_device, device_name
from tuner.core.rig import Rig
from tuner.engine.probe import list_devices
from tuner.errors import RigError
from tuner.rig.doctor_facts import read_driver
from tuner.rig.guarded import Guarded
from tuner.rig.lock import RigLock
from tuner.rig.match import match_devices
from tuner.rig.nvml import free_mib_by_uuid, read_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.cli.build.options import TuneOptions
    from tuner.core.rig import Device
    from tuner.engine.probe import Engine
    from tuner.rig.nvml import NvmlReading


def build_rig(options: TuneOptions, engine: Engine, environment: Mapping[str, str], rpc: str | None) -> Rig:
    """The devices that the study may use.

    Raises:
        RigError: There is none, or one that the user names does not exist.
    """
    if rpc is not None:
        _check_rpc_free(rpc)
    reading = read_gpus()  # before the engine is asked: its probe holds memory on every card for a moment
    devices = _as_built_in(
        match_devices(list_devices(engine, environment, rpc), reading, environment), reading
    )
    names = tuple(device.name for device in devices)
    if not names:
        raise RigError(
            f"{engine.path} sees no device. Check the driver (nvidia-smi), that this build has a GPU back "
            "end (llama-server --list-devices), or name RPC servers after -- (--rpc host:port,host:port)"
        )
    if options.device_memory is not None:
        stated = by_device("--device-memory", options.device_memory, names)
        devices = tuple(
            replace(device, total_mib=stated[device.name], free_mib=stated[device.name], stated=True)
            if device.name in stated
            else device
            for device in devices
        )
    listed = devices
    if options.devices is not None:
        chosen = [device_name("--devices", word.strip(), names) for word in options.devices.split(",")]
        if len(set(chosen)) < len(chosen):
            raise RigError(f"--devices {options.devices}: names a device twice")
        by_name = {device.name: device for device in devices}
        devices = tuple(by_name[name] for name in chosen)
    others = tuple(device for device in listed if device not in devices)
    return Rig(devices, driver=reading.driver, others=others)


def _as_built_in(devices: tuple[Device, ...], reading: NvmlReading) -> tuple[Device, ...]:
    """With the power limit and the link of each card."""
    cards = {card.uuid: card for card in read_driver(reading).cards if card.uuid is not None}
    return tuple(
        device
        if device.uuid is None or (card := cards.get(device.uuid)) is None
        else replace(
            device,
            power_limit_w=card.power_limit_w,
            pcie_generation=card.pcie_max_generation,
            pcie_width=card.pcie_max_width,
        )
        for device in devices
    )


def _check_rpc_free(rpc: str) -> None:
    """Refuse RPC servers that another tuner uses: they serve one client, and would leave us waiting."""
    hosts = [endpoint.rpartition(":")[0] for endpoint in rpc.split(",")]
    with RigLock(tuple(f"RPC{index}:{host}" for index, host in enumerate(hosts))):
        pass


def free_reader(rig: Rig) -> Callable[[], Mapping[str, int]]:
    """A function that reads the free MiB of each device that the driver knows, by device name."""
    names = {device.uuid: device.name for device in rig.devices if device.uuid is not None}

    def read() -> Mapping[str, int]:
        return {names[uuid]: free for uuid, free in free_mib_by_uuid(names).items()}

    if not names:
        return lambda: MappingProxyType({})
    empty: Mapping[str, int] = MappingProxyType({})
    return Guarded(read, otherwise=empty)
