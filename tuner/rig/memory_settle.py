"""Waiting until a server that has ended has given all of its memory back.

A driver takes memory back some time after a process is gone, and a launch into what is left of the last one
would run out of memory by no fault of its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pynvml

from tuner.core.readiness import NotBack, Settled, missing_mib
from tuner.rig.nvml import read_gpus
from tuner.rig.waiting import wait_while

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import ModuleType

    from tuner.core.rig import DeviceUser

_PERIOD_S = 0.1
"""Most memory is back within a fraction of a second."""


def wait_until_back(
    baseline_mib: Mapping[str, int],
    read: Callable[[], Mapping[str, int]],
    *,
    holders: Callable[[], Mapping[str, tuple[DeviceUser, ...]]],
    tolerance_mib: int = 128,
    deadline_s: float = 30.0,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Settled | NotBack:
    """Wait until each device has as much memory free as before the first launch.

    Without a baseline, as where no driver says, there is nothing to wait for.

    Args:
        baseline_mib: What was free before the first launch, by device.
        read: What is free now, by device.
        holders: Who has memory on which device; asked only where somebody has to be named.
        tolerance_mib: So much less is as good as back.
        deadline_s: Longer is not waited.
        sleep: Waits some seconds; may raise to end the wait.
        clock: Seconds.
    """

    def shortage() -> dict[str, int] | None:
        return missing_mib(baseline_mib, read(), tolerance_mib) or None

    if not baseline_mib:
        return Settled()
    missing, waited_s = wait_while(
        shortage, deadline_s=deadline_s, period_s=_PERIOD_S, sleep=sleep, clock=clock
    )
    if missing is None:
        return Settled(waited_s)
    device = max(missing, key=missing.__getitem__)
    return NotBack(device, missing[device], tuple(holders().get(device, ())), waited_s)


def read_holders(
    devices: Mapping[str, str], own_pids: Collection[int] = (), *, nvml: ModuleType = pynvml
) -> dict[str, tuple[DeviceUser, ...]]:
    """Processes with memory on these cards, by device; nobody where there is no NVIDIA driver.

    Args:
        devices: The engine's names of the cards, by UUID.
        own_pids: Processes that are left out, as this one is.
        nvml: The `pynvml` module.
    """
    return {
        devices[gpu.uuid]: gpu.users
        for gpu in read_gpus(own_pids, nvml=nvml).gpus
        if gpu.uuid is not None and gpu.uuid in devices
    }
