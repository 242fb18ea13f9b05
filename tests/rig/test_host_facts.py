"""Memory, disk and sleep of this machine, and of others that it plays."""

from __future__ import annotations

import errno
import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tuner.rig import host_facts
from tuner.rig.host_facts import read_host, read_model_disk

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(os.urandom(MIB) * 40)
    return path


def played(monkeypatch: pytest.MonkeyPatch, path: Path, name: str, text: str) -> None:
    """This machine with one file of its system replaced."""
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(host_facts, name, path)


def test_this_machine_has_memory_and_space(tmp_path: Path) -> None:
    host = read_host([], tmp_path / "not" / "yet" / "there")
    assert 0 < host.memory_available_mib <= host.memory_total_mib
    assert host.results_free_mib is not None
    assert host.results_free_mib > 0
    assert host.model_disk is None


def test_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, tmp_path / "memory.max", "_CONTAINER_LIMIT", f"{512 * MIB}\n")
    host = read_host([], tmp_path)
    assert (host.memory_total_mib, host.memory_available_mib) == (512, 512)


def test_no_limit_of_a_container_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_host([], tmp_path).memory_total_mib
    played(monkeypatch, tmp_path / "memory.max", "_CONTAINER_LIMIT", "max\n")
    assert read_host([], tmp_path).memory_total_mib == whole


@pytest.mark.parametrize(
    ("release", "is_wsl"), [("5.15.167.4-microsoft-standard-WSL2\n", True), ("6.1.0-28-amd64\n", False)]
)
def test_wsl_is_told_by_its_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, *, is_wsl: bool
) -> None:
    played(monkeypatch, tmp_path / "osrelease", "_OS_RELEASE", release)
    assert read_host([], tmp_path).is_wsl is is_wsl


def test_machine_without_sleep_states_needs_no_inhibitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(monkeypatch, tmp_path / "state", "_SLEEP_STATES", "\n")
    monkeypatch.setattr(host_facts, "SleepInhibitor", None)
    host = read_host([], tmp_path)
    assert (host.can_suspend, host.awake_problem) == (False, None)


def test_machine_that_sleeps_tells_whether_it_can_be_kept_awake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(monkeypatch, tmp_path / "state", "_SLEEP_STATES", "freeze mem disk\n")
    monkeypatch.setattr("shutil.which", lambda _name: None)
    host = read_host([], tmp_path)
    assert host.can_suspend is True
    assert host.awake_problem == "there is no systemd-inhibit on this system"


# --- the model's disk


def test_file_just_written_is_in_the_page_cache(model: Path) -> None:
    disk = read_model_disk([model])
    assert disk.cached_share is not None
    assert disk.cached_share > 0.9
    assert disk.file_system is not None


def test_speed_is_bytes_over_time(model: Path) -> None:
    ticks = itertools.count()  # the clock is asked at the start, before each of 11 reads of 4 MiB, at the end
    disk = read_model_disk([model], clock=lambda: next(ticks) / 10)
    assert disk.read_mib_s == pytest.approx(40 / 1.2, rel=0.2)


def test_slow_disk_is_left_after_two_seconds(model: Path) -> None:
    ticks = itertools.count()
    disk = read_model_disk([model], clock=lambda: float(next(ticks)))
    assert disk.read_mib_s is not None
    assert disk.read_mib_s < 8


def test_small_file_says_nothing_of_a_disk(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(bytes(MIB))
    assert read_model_disk([path]).read_mib_s is None


def test_file_system_without_direct_reads_drops_the_cache_first(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open, dropped = os.open, []

    def refuse_direct(path: Path, flags: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", refuse_direct)
    monkeypatch.setattr(os, "posix_fadvise", lambda *args: dropped.append(args[1:]))
    assert read_model_disk([model]).read_mib_s is not None
    assert dropped == [(0, host_facts.READ_AT_MOST_BYTES, os.POSIX_FADV_DONTNEED)]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_file_that_cannot_be_read_has_no_speed(
    model: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    disk = read_model_disk([model])
    assert (disk.read_mib_s, disk.cached_share) == (None, None)


def test_largest_shard_is_read(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, opened = tmp_path / "first.gguf", []
    first.write_bytes(bytes(MIB))
    really_open = os.open

    def note(path: Path, flags: int) -> int:
        if flags & os.O_DIRECT:
            opened.append(path)
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", note)
    read_model_disk([first, model])
    assert opened == [model]


def test_file_system_is_that_of_the_nearest_mount(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"C:\\134 {tmp_path} 9p rw 0 0", "/dev/sdc / ext4 rw 0 0", "none /elsewhere tmpfs rw 0 0", "odd"]
    played(monkeypatch, tmp_path / "mounts", "_MOUNTS", "\n".join(lines))
    assert read_model_disk([model]).file_system == "9p"
