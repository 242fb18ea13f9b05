"""Waiting for memory, on a clock that the tests move."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pynvml
import pytest

from tuner.core.readiness import NotBack, Settled
from tuner.core.rig import DeviceUser
from tuner.rig.memory_settle import read_holders, wait_until_back

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MIB = 2**20
BASELINE = {"CUDA0": 24_000, "CUDA1": 16_000}
USER = DeviceUser(4242, "python3", 9000)


@dataclass
class Time:
    """Moves when somebody sleeps."""

    now_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept_s.append(seconds)
        self.now_s += seconds

    def clock(self) -> float:
        return self.now_s


def wait(
    read: Callable[[], Mapping[str, int]], time: Time, *, baseline: Mapping[str, int] = BASELINE
) -> Settled | NotBack:
    return wait_until_back(
        baseline, read, holders=lambda: {"CUDA1": (USER,)}, sleep=time.sleep, clock=time.clock
    )


def test_memory_that_is_back_is_not_waited_for() -> None:
    time = Time()
    assert wait(lambda: {"CUDA0": 23_900, "CUDA1": 16_100}, time) == Settled()
    assert time.slept_s == []


def test_memory_that_comes_back_is_waited_for() -> None:
    time = Time()
    found = wait(lambda: {"CUDA0": 24_000, "CUDA1": 15_990 if time.now_s >= 0.75 else 2000}, time)
    assert found == Settled(time.now_s)
    assert 0.75 <= time.now_s < 1


def test_memory_that_does_not_come_back_is_named_with_its_holder() -> None:
    time = Time()
    found = wait(lambda: {"CUDA0": 23_000, "CUDA1": 7000}, time)
    assert found == NotBack("CUDA1", 9000, (USER,), time.now_s)
    assert time.now_s == pytest.approx(30)


def test_a_device_of_whose_holders_nothing_is_known_has_none() -> None:
    found = wait(lambda: {"CUDA0": 100}, Time())
    assert isinstance(found, NotBack)
    assert (found.device, found.holders) == ("CUDA0", ())


@pytest.mark.parametrize("baseline", [{}, BASELINE], ids=["never", "no more"])
def test_where_no_driver_says_nothing_is_waited_for(baseline: dict[str, int]) -> None:
    time = Time()
    assert wait(dict, time, baseline=baseline) == Settled()
    assert time.slept_s == []


def test_holders_are_asked_for_only_where_they_are_named() -> None:
    def no_one() -> Mapping[str, tuple[DeviceUser, ...]]:
        pytest.fail("asked")

    wait_until_back(BASELINE, lambda: BASELINE, holders=no_one)


def test_a_sleep_that_raises_ends_the_wait() -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_until_back(BASELINE, lambda: {"CUDA0": 0}, holders=dict, sleep=interrupted)


def played_nvml() -> ModuleType:
    module = ModuleType("played_pynvml")
    uuids = ("GPU-a", "GPU-b")
    process = SimpleNamespace(pid=2**31 - 1, usedGpuMemory=9000 * MIB)
    memory = SimpleNamespace(total=1, used=1, free=1)
    vars(module).update(
        NVMLError=pynvml.NVMLError,
        nvmlMemory_v2=pynvml.nvmlMemory_v2,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlDeviceGetHandleByIndex=uuids.__getitem__,
        nvmlDeviceGetUUID=str,
        nvmlDeviceGetName=str,
        nvmlDeviceGetPciInfo=lambda uuid: SimpleNamespace(busId=uuid),
        nvmlDeviceGetMemoryInfo=lambda *_, **__: memory,
        nvmlDeviceGetComputeRunningProcesses_v3=lambda uuid: [process] if uuid == "GPU-b" else [],
        nvmlDeviceGetGraphicsRunningProcesses_v3=lambda _: [],
    )
    return module


def test_holders_are_those_of_the_rigs_cards_by_the_engines_names() -> None:
    nobody: tuple[DeviceUser, ...] = ()
    holder = DeviceUser(2**31 - 1, "?", 9000)
    nvml = played_nvml()
    assert read_holders({"GPU-b": "CUDA0", "GPU-a": "CUDA1"}, nvml=nvml) == {
        "CUDA1": nobody,
        "CUDA0": (holder,),
    }
    assert read_holders({"GPU-b": "CUDA0"}, own_pids=[holder.pid], nvml=nvml) == {"CUDA0": nobody}
    assert read_holders({}, nvml=nvml) == {}
