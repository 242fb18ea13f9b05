"""What NVIDIA's driver says of the cards: identity, memory, and whose processes are on them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

import psutil
import pynvml

from tuner.core.rig import DeviceUser

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from types import ModuleType

_BYTES_PER_MIB = 2**20
_UNKNOWN_NAME = "?"

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """One card as NVML sees it; a field is None where the driver does not say."""

    index: int
    """NVML's own, which is not CUDA's: see `tuner.rig.match`."""
    uuid: str | None
    name: str | None
    bus_id: str | None
    """`00000000:01:00.0`; sorts as text, since every part has a fixed width."""
    total_mib: int | None
    """All of the card's memory, with what the driver keeps for itself."""
    used_mib: int | None
    """In use by processes; without the driver's own reserve where the driver tells them apart."""
    free_mib: int | None
    users: tuple[DeviceUser, ...] = ()
    """Processes of others on the card, by process id."""


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """All cards at one moment, in NVML's order; none where there is no NVIDIA driver."""

    gpus: tuple[NvidiaGpu, ...] = ()
    driver: str | None = None
    """The driver's version."""


def read_gpus(own_pids: Collection[int] = (), *, nvml: ModuleType = pynvml) -> NvmlReading:
    """Read every card once.

    A query that the driver refuses (not supported, no permission, too old) costs that field alone. A card
    that cannot be opened at all is left out: CUDA cannot use it either.

    Args:
        own_pids: Processes that are no foreign users; this process never is one.
        nvml: The `pynvml` module.
    """
    try:
        _start(nvml)
        count: int = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError:
        return NvmlReading()
    own = {os.getpid(), *own_pids}
    gpus = (_read_gpu(nvml, index, own) for index in range(count))
    return NvmlReading(
        gpus=tuple(gpu for gpu in gpus if gpu is not None),
        driver=_ask(nvml, nvml.nvmlSystemGetDriverVersion),
    )


def free_mib_by_uuid(uuids: Iterable[str], *, nvml: ModuleType = pynvml) -> dict[str, int]:
    """Free memory of these cards, and of no others; a card that does not answer is missing.

    Cheap enough to be asked many times a second: NVML stays started between calls.
    """
    try:
        _start(nvml)
    except nvml.NVMLError:
        return {}
    free_mib: dict[str, int] = {}
    for uuid in uuids:
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            free_mib[uuid] = nvml.nvmlDeviceGetMemoryInfo(handle).free // _BYTES_PER_MIB
        except nvml.NVMLError:
            continue
    return free_mib


@cache
def _start(nvml: ModuleType) -> None:
    """Start NVML once a process and keep it.

    Without a persistence daemon the driver unloads a card's state when its last user leaves, and the next
    start then takes seconds. A start that fails raises, is not cached, and is tried again by the next call.
    """
    nvml.nvmlInit()


def _ask(nvml: ModuleType, question: Callable[[], _Answer]) -> _Answer | None:
    try:
        return question()
    except nvml.NVMLError:
        return None


def _read_gpu(nvml: ModuleType, index: int, own_pids: set[int]) -> NvidiaGpu | None:
    handle = _ask(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return None
    total_mib, used_mib, free_mib = _read_memory_mib(nvml, handle)
    return NvidiaGpu(
        index=index,
        uuid=_ask(nvml, lambda: nvml.nvmlDeviceGetUUID(handle)),
        name=_ask(nvml, lambda: nvml.nvmlDeviceGetName(handle)),
        bus_id=_ask(nvml, lambda: nvml.nvmlDeviceGetPciInfo(handle).busId),
        total_mib=total_mib,
        used_mib=used_mib,
        free_mib=free_mib,
        users=_read_users(nvml, handle, own_pids),
    )


def _read_memory_mib(nvml: ModuleType, handle: object) -> tuple[int | None, int | None, int | None]:
    """Total, used and free.

    Version 2 of the query keeps the driver's reserve out of `used`; drivers before 510 know only version 1.
    """
    memory = _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if memory is None:
        memory = _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    if memory is None:  # a card that shares the system's memory has none of its own to tell of
        return None, None, None
    return memory.total // _BYTES_PER_MIB, memory.used // _BYTES_PER_MIB, memory.free // _BYTES_PER_MIB


def _read_users(nvml: ModuleType, handle: object, own_pids: set[int]) -> tuple[DeviceUser, ...]:
    # The functions with a version in their name, because the others turn "this driver is too old" into an
    # exception that is no NVMLError.
    queries = (nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetGraphicsRunningProcesses_v3)
    used_mib_by_pid: dict[int, int | None] = {}
    for query in queries:
        for process in _ask(nvml, partial(query, handle)) or ():
            # A process that both computes and draws is in both lists, with the same memory.
            used_mib = used_mib_by_pid.get(process.pid)
            if process.usedGpuMemory is not None:
                used_mib = max(used_mib or 0, process.usedGpuMemory // _BYTES_PER_MIB)
            used_mib_by_pid[process.pid] = used_mib
    return tuple(
        DeviceUser(pid=pid, name=_process_name(pid), used_mib=used_mib)
        for pid, used_mib in sorted(used_mib_by_pid.items())
        if pid not in own_pids
    )


def _process_name(pid: int) -> str:
    try:
        return psutil.Process(pid).name() or _UNKNOWN_NAME
    except psutil.Error:  # gone, hidden from this user, or outside of this container
        return _UNKNOWN_NAME
