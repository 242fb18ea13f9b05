"""The kernel's counters of processes that it has killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.rig.kernel_oom import OomCounter

counters = st.builds(OomCounter, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))

EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
OOM_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
VMSTAT = "nr_free_pages 1\nthp_fault_alloc 5\noom_kill {}\ndrop_pagecache 0\n"


class PlayedKernel:
    """The files that the kernel would show."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.cgroups = root / "cgroup"

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def own_cgroup(self, lines: str) -> None:
        self.write(self.proc / "self" / "cgroup", lines)

    def read(self) -> OomCounter:
        return OomCounter.read(proc=self.proc, cgroups=self.cgroups)


@pytest.fixture
def kernel(tmp_path: Path) -> PlayedKernel:
    return PlayedKernel(tmp_path)


def test_counters_of_cgroup_and_machine_are_read(kernel: PlayedKernel) -> None:
    kernel.own_cgroup("0::/user.slice/session-2.scope\n")
    kernel.write(kernel.cgroups / "user.slice/session-2.scope/memory.events", EVENTS.format(4))
    kernel.write(kernel.cgroups / "memory.events", EVENTS.format(99))
    kernel.write(kernel.proc / "vmstat", VMSTAT.format(7))
    assert kernel.read() == OomCounter(cgroup=4, machine=7)


def test_cgroup_of_a_container_is_where_it_is_mounted(kernel: PlayedKernel) -> None:
    kernel.own_cgroup("0::/docker/0a1b2c\n")
    kernel.write(kernel.cgroups / "memory.events", EVENTS.format(2))
    assert kernel.read() == OomCounter(cgroup=2, machine=None)


def test_cgroups_of_the_first_version_count_too(kernel: PlayedKernel) -> None:
    kernel.own_cgroup("9:name=systemd:/\n4:memory,hugetlb:/jobs/a:b\n0::/\n")
    kernel.write(kernel.cgroups / "memory/jobs/a:b/memory.oom_control", OOM_CONTROL.format(1))
    assert kernel.read() == OomCounter(cgroup=1, machine=None)


@pytest.mark.parametrize("text", ["", "oom_kill\n", "oom_kill many\n", "oom_killer 3\n"])
def test_a_file_without_the_counter_is_unreadable(kernel: PlayedKernel, text: str) -> None:
    kernel.own_cgroup("0::/\nnonsense\n")
    kernel.write(kernel.cgroups / "memory.events", text)
    kernel.write(kernel.proc / "vmstat", text)
    assert kernel.read() == OomCounter(None, None)


def test_a_system_without_these_files_is_unreadable(kernel: PlayedKernel) -> None:
    assert kernel.read() == OomCounter(None, None)


def test_the_cgroup_decides_where_it_is_readable() -> None:
    before = OomCounter(cgroup=4, machine=7)
    assert OomCounter(cgroup=5, machine=8).killed_since(before) is True
    assert OomCounter(cgroup=4, machine=8).killed_since(before) is False  # somebody else's process


def test_the_machine_decides_otherwise() -> None:
    before = OomCounter(cgroup=None, machine=7)
    assert OomCounter(cgroup=3, machine=8).killed_since(before) is True
    assert OomCounter(cgroup=3, machine=7).killed_since(before) is False


def test_without_a_counter_nothing_can_be_told() -> None:
    assert OomCounter(5, None).killed_since(OomCounter(None, 3)) is None


def test_this_machine_can_be_asked() -> None:
    before = OomCounter.read()
    assert OomCounter.read().killed_since(before) in {None, False}
    assert (before.machine is None) == ("\noom_kill " not in Path("/proc/vmstat").read_text(encoding="utf-8"))


@PROPERTY
@given(counters)
def test_nothing_has_been_killed_since_now(counter: OomCounter) -> None:
    assert counter.killed_since(counter) is (None if counter == OomCounter(None, None) else False)
