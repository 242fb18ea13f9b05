"""What the machine around the cards has: memory, a disk and its speed, and whether it can be kept awake."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tuner.core.checkup.facts import HostFacts, ModelDisk
from tuner.core.space_document import Cores
from tuner.rig.inhibit import SleepInhibitor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MIB = 2**20
_CHUNK_BYTES = 4 * _MIB
_SAMPLES = 64
_SAMPLE_BYTES = mmap.PAGESIZE
#: The file systems that `O_DIRECT` fails on say so in one of these ways.
_NOT_DIRECT = frozenset({errno.EINVAL, errno.EOPNOTSUPP})

READ_AT_MOST_BYTES = 256 * _MIB
READ_AT_MOST_S = 2.0
#: What comes from less says nothing of a disk.
READ_AT_LEAST_BYTES = 32 * _MIB

_OS_RELEASE = Path("/proc/sys/kernel/osrelease")
_SLEEP_STATES = Path("/sys/power/state")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_MOUNTS = Path("/proc/self/mounts")


def read_host(model_paths: Sequence[Path], results_folder: Path) -> HostFacts:
    """Look at this machine; a model's disk is read for two seconds at most.

    Args:
        model_paths: The model's shards; none without a model.
        results_folder: Where studies are written; it need not exist.
    """
    limit_mib = _container_limit_mib()
    total_mib = psutil.virtual_memory().total // _MIB
    if limit_mib is not None:
        total_mib = min(total_mib, limit_mib)
    suspends = can_suspend()
    return HostFacts(
        memory_total_mib=total_mib,
        memory_available_mib=available_memory_mib(),
        results_folder=str(results_folder),
        results_free_mib=_free_mib(results_folder),
        is_wsl="microsoft" in _text(_OS_RELEASE).casefold(),
        can_suspend=suspends,
        awake_problem=None if suspends is False else _awake_problem(),
        model_disk=read_model_disk(model_paths) if model_paths else None,
    )


def host_cores() -> Cores | None:
    """The cores of this machine's processor; None where it does not say."""
    physical, logical = psutil.cpu_count(logical=False), psutil.cpu_count()
    return Cores(physical, logical) if physical and logical else None


def available_memory_mib() -> int:
    """What a new process can have without anything being paged out, page cache counted as free."""
    available_mib = psutil.virtual_memory().available // _MIB
    limit_mib = _container_limit_mib()
    return available_mib if limit_mib is None else min(available_mib, limit_mib)


def read_model_disk(paths: Sequence[Path], *, clock: Callable[[], float] = time.monotonic) -> ModelDisk:
    """How much of the files is in the page cache, and how fast the disk gives the first of them.

    Args:
        paths: All shards of the model.
        clock: Seconds, never going back.
    """
    cached_share = _cached_share(paths)  # before the measurement, which may change it
    return ModelDisk(
        read_mib_s=_read_mib_s(max(paths, key=_size_bytes), clock),
        cached_share=cached_share,
        file_system=_file_system(paths[0]),
    )


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _cached_share(paths: Sequence[Path]) -> float | None:
    """Share of pages that can be read without waiting for the disk, out of samples all over the files."""
    sizes = [_size_bytes(path) for path in paths]
    step = max(sum(sizes) // _SAMPLES, _SAMPLE_BYTES)
    cached = asked = 0
    for path, size in zip(paths, sizes, strict=True):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            for offset in range(0, size, step):
                asked += 1
                cached += _is_cached(fd, offset)
        except OSError:  # this file system cannot say
            return None
        finally:
            os.close(fd)
    return cached / asked if asked else None


def _is_cached(fd: int, offset: int) -> bool:
    try:
        return os.preadv(fd, [bytearray(_SAMPLE_BYTES)], offset, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False


def _read_mib_s(path: Path, clock: Callable[[], float]) -> float | None:
    """Read past the page cache; where that is not possible, drop the part that is read from it first."""
    try:
        return _timed_read(path, os.O_DIRECT, clock)
    except OSError as error:
        if error.errno not in _NOT_DIRECT:
            return None
    try:
        return _timed_read(path, 0, clock)
    except OSError:
        return None


def _timed_read(path: Path, flag: int, clock: Callable[[], float]) -> float | None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flag)
    try:
        if not flag:
            os.posix_fadvise(fd, 0, READ_AT_MOST_BYTES, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(-1, _CHUNK_BYTES) as aligned:  # O_DIRECT wants memory that begins at a page
            done, started_s = 0, clock()
            while done < READ_AT_MOST_BYTES and clock() - started_s < READ_AT_MOST_S:
                count = os.preadv(fd, [aligned], done)
                done += count
                if count < _CHUNK_BYTES:
                    break
            elapsed_s = clock() - started_s
    finally:
        os.close(fd)
    is_enough = done >= READ_AT_LEAST_BYTES or elapsed_s >= READ_AT_MOST_S
    return done / _MIB / elapsed_s if is_enough and elapsed_s > 0 else None


def _file_system(path: Path) -> str | None:
    """The type of the file system that a file lies on, by the longest mount point above it."""
    best, kind = "", None
    for line in _text(_MOUNTS).splitlines():
        words = line.split()
        if len(words) < 3:
            continue
        point = words[1].encode().decode("unicode_escape", errors="replace")  # blanks are written as \040
        if len(point) >= len(best) and path.resolve().is_relative_to(point):
            best, kind = point, words[2]
    return kind


def _free_mib(folder: Path) -> int | None:
    """Free space where the folder is, or will be."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return shutil.disk_usage(place).free // _MIB
    except OSError:
        return None


def _container_limit_mib() -> int | None:
    text = _text(_CONTAINER_LIMIT).strip()
    return int(text) // _MIB if text.isdecimal() else None


def can_suspend() -> bool | None:
    """Whether the kernel offers a sleep state; None where it does not say."""
    try:
        return bool(_SLEEP_STATES.read_text(encoding="ascii").split())
    except OSError:
        return None


def _awake_problem() -> str | None:
    with SleepInhibitor() as inhibitor:
        return inhibitor.problem


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
