"""Checks of the machine around the cards: memory for the page cache, disk, and staying awake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.checkup.check import Check, Level, Topic

if TYPE_CHECKING:
    from tuner.core.checkup.facts import HostFacts, ModelDisk
    from tuner.core.model import ModelFile

_MIB = 2**20
#: Logs and samples of a night are some tens of MiB; below the first a run may end for want of space.
_NO_SPACE_MIB = 200
_LITTLE_SPACE_MIB = 2048
#: A model that comes from disk at every launch: longer than this and a night has few launches.
_LONG_LOAD_S = 60.0
#: Windows' disks, as WSL2 mounts them: slow.
_WINDOWS_FILE_SYSTEMS = frozenset({"9p", "drvfs"})
_CACHED = 0.99


def host_checks(host: HostFacts, model: ModelFile | None) -> list[Check]:
    """The machine as such, and for a model where its launches read it from."""
    checks = [_memory_check(host, model), _space_check(host)]
    if host.is_wsl:
        text = "WSL2: the driver tells less (processes, power, peers), and .wslconfig limits the memory"
        checks.append(Check(Topic.MEMORY, "", Level.OK, text))
    if model is not None and host.model_disk is not None:
        checks.append(_disk_check(host, model, host.model_disk))
    return [*checks, _sleep_check(host)]


def _memory_check(host: HostFacts, model: ModelFile | None) -> Check:
    said = f"{host.memory_available_mib:,} of {host.memory_total_mib:,} MiB available"
    if model is None:
        return Check(Topic.MEMORY, "", Level.OK, said)
    size_mib = model.size_bytes / _MIB
    if host.memory_available_mib >= size_mib:
        text = f"{said}: the page cache can hold the model ({size_mib:,.0f} MiB)"
        return Check(Topic.MEMORY, "", Level.OK, text)
    return Check(
        Topic.MEMORY,
        "",
        Level.WARNING,
        f"{said}: the page cache cannot hold the model ({size_mib:,.0f} MiB), so each launch reads the disk",
        "close what takes memory; with little memory a fast disk decides how many launches a night has",
    )


def _space_check(host: HostFacts) -> Check:
    if host.results_free_mib is None:
        return Check(Topic.DISK, host.results_folder, Level.UNKNOWN, "free space cannot be read")
    said = f"{host.results_free_mib / 1024:,.1f} GiB free"
    if host.results_free_mib >= _LITTLE_SPACE_MIB:
        return Check(Topic.DISK, host.results_folder, Level.OK, said)
    level = Level.PROBLEM if host.results_free_mib < _NO_SPACE_MIB else Level.WARNING
    return Check(Topic.DISK, host.results_folder, level, said, "free some, or give another --results folder")


def _disk_check(host: HostFacts, model: ModelFile, disk: ModelDisk) -> Check:
    size_mib = model.size_bytes / _MIB
    holds = host.memory_available_mib >= size_mib
    cached = disk.cached_share is not None and disk.cached_share >= _CACHED
    parts = []
    if disk.cached_share is not None:
        parts.append("in the page cache" if cached else f"{disk.cached_share:.0%} in the page cache")
    load_s: float | None = None
    if disk.read_mib_s is None:
        parts.append("the speed of its disk could not be measured")
    else:
        load_s = size_mib / disk.read_mib_s
        parts.append(f"its disk reads {disk.read_mib_s:,.0f} MiB/s: {_duration(load_s)} for all of it")
    said = "; ".join(parts)
    if disk.file_system in _WINDOWS_FILE_SYSTEMS:
        return Check(
            Topic.DISK,
            "model",
            Level.WARNING,
            f"{said}; it lies on a Windows disk, which WSL2 reads slowly",
            "copy it into WSL's own file system, such as your home folder",
        )
    if load_s is None:
        return Check(Topic.DISK, "model", Level.OK if cached else Level.UNKNOWN, said)
    if load_s > _LONG_LOAD_S and not holds:
        return Check(
            Topic.DISK,
            "model",
            Level.WARNING,
            f"{said}, at every launch",
            "put the model on a faster disk (NVMe), or free memory for the page cache",
        )
    if load_s > _LONG_LOAD_S and not cached:
        said += ", at the first launch only"
    return Check(Topic.DISK, "model", Level.OK, said)


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _sleep_check(host: HostFacts) -> Check:
    if host.can_suspend is False:
        return Check(Topic.SLEEP, "", Level.OK, "this machine cannot suspend")
    if host.awake_problem is None:
        return Check(Topic.SLEEP, "", Level.OK, "a run keeps the machine awake (systemd-inhibit)")
    return Check(
        Topic.SLEEP,
        "",
        Level.WARNING,
        f"the machine cannot be kept awake: {host.awake_problem}",
        "switch automatic sleep off for the night",
    )
