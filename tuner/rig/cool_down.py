"""Waiting until the cards are cool, so that each launch begins as the others did."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pynvml

from tuner.core.readiness import Settled, TooHot, too_hot_c
from tuner.rig.waiting import wait_while

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

_PERIOD_S = 1.0


def wait_until_cool(
    read: Callable[[], Mapping[str, int]],
    limit_c: int,
    *,
    deadline_s: float = 600.0,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Settled | TooHot:
    """Wait until no device is hotter than the limit; one that does not say is not waited for.

    Args:
        read: Temperatures in °C, by device.
        limit_c: What is cool enough.
        deadline_s: Longer is not waited.
        sleep: Waits some seconds; may raise to end the wait.
        clock: Seconds.
    """
    hot, waited_s = wait_while(
        lambda: too_hot_c(read(), limit_c) or None,
        deadline_s=deadline_s,
        period_s=_PERIOD_S,
        sleep=sleep,
        clock=clock,
    )
    if hot is None:
        return Settled(waited_s)
    device = max(hot, key=hot.__getitem__)
    return TooHot(device, hot[device], limit_c, waited_s)


def read_temperatures_c(devices: Mapping[str, str], *, nvml: ModuleType = pynvml) -> dict[str, int]:
    """Temperatures of these cards, by device; a card that does not say is missing.

    Args:
        devices: The engine's names of the cards, by UUID.
        nvml: The `pynvml` module.
    """
    temperatures_c: dict[str, int] = {}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return {}
    for uuid, device in devices.items():
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            temperatures_c[device] = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        except nvml.NVMLError:
            continue
    return temperatures_c
