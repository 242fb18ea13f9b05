"""NVML's answers, its refusals, and its absence; the errors are the real module's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

import psutil
import pynvml
import pytest

from tuner.core.rig import DeviceUser
from tuner.rig.nvml import NvidiaGpu, NvmlReading, free_mib_by_uuid, read_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MIB = 2**20
GONE_PID = 2**31 - 1  # above any pid that Linux gives

Value = TypeVar("Value")


def memory_mib(total: int, used: int, free: int) -> SimpleNamespace:
    return SimpleNamespace(total=total * MIB, used=used * MIB, free=free * MIB)


def process(pid: int, used_mib: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if used_mib is None else used_mib * MIB)


@dataclass
class Card:
    """What the played driver says of one card; an exception in place of an answer is raised."""

    uuid: str | Exception = "GPU-a"
    name: str | Exception = "NVIDIA GeForce RTX 3090"
    bus_id: str | Exception = "00000000:01:00.0"
    memory: SimpleNamespace | Exception = field(default_factory=lambda: memory_mib(24576, 100, 24076))
    memory_v2: SimpleNamespace | Exception = field(default_factory=lambda: memory_mib(24576, 100, 24076))
    compute: Sequence[SimpleNamespace] | Exception = ()
    graphics: Sequence[SimpleNamespace] | Exception = ()
    lost: Exception | None = None


def answer(value: Value | Exception) -> Value:
    if isinstance(value, Exception):
        raise value
    return value


@dataclass
class Driver:
    """A driver with these cards; it answers nothing before it is started."""

    cards: tuple[Card, ...]
    init: Exception | None = None
    version: str | Exception = "580.1"
    starts: int = 0

    def start(self) -> None:
        answer(self.init)
        self.starts += 1

    def running(self) -> Driver:
        if not self.starts:
            raise pynvml.NVMLError_Uninitialized
        return self

    def by_index(self, index: int) -> Card:
        card = self.running().cards[index]
        answer(card.lost)
        return card

    def by_uuid(self, uuid: str) -> Card:
        for card in self.running().cards:
            if card.uuid == uuid:
                return card
        raise pynvml.NVMLError_NotFound

    @property
    def module(self) -> ModuleType:
        """A `pynvml` on top of this driver, with the real module's errors."""

        def memory(card: Card, version: int | None = None) -> SimpleNamespace:
            return answer(card.memory if version is None else card.memory_v2)

        module = ModuleType("played_pynvml")
        vars(module).update(
            NVMLError=pynvml.NVMLError,
            nvmlMemory_v2=pynvml.nvmlMemory_v2,
            nvmlInit=self.start,
            nvmlDeviceGetCount=lambda: len(self.running().cards),
            nvmlSystemGetDriverVersion=lambda: answer(self.running().version),
            nvmlDeviceGetHandleByIndex=self.by_index,
            nvmlDeviceGetHandleByUUID=self.by_uuid,
            nvmlDeviceGetUUID=lambda card: answer(card.uuid),
            nvmlDeviceGetName=lambda card: answer(card.name),
            nvmlDeviceGetPciInfo=lambda card: SimpleNamespace(busId=answer(card.bus_id)),
            nvmlDeviceGetMemoryInfo=memory,
            nvmlDeviceGetComputeRunningProcesses_v3=lambda card: list(answer(card.compute)),
            nvmlDeviceGetGraphicsRunningProcesses_v3=lambda card: list(answer(card.graphics)),
        )
        return module


def play_nvml(*cards: Card) -> ModuleType:
    return Driver(cards).module


@contextmanager
def other_process() -> Iterator[int]:
    """A process that lives until the end of the block."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            yield child.pid
        finally:
            child.kill()


def test_every_function_used_exists_in_the_real_module() -> None:
    for name in vars(play_nvml()):
        if not name.startswith("__"):
            assert hasattr(pynvml, name), name


def test_identity_and_memory_are_read() -> None:
    nvml = play_nvml(
        Card(),
        Card(uuid="GPU-b", name="NVIDIA GeForce RTX 5080", bus_id="00000000:02:00.0"),
    )
    assert read_gpus(nvml=nvml) == NvmlReading(
        gpus=(
            NvidiaGpu(0, "GPU-a", "NVIDIA GeForce RTX 3090", "00000000:01:00.0", 24576, 100, 24076),
            NvidiaGpu(1, "GPU-b", "NVIDIA GeForce RTX 5080", "00000000:02:00.0", 24576, 100, 24076),
        ),
        driver="580.1",
    )


def test_memory_reserved_by_the_driver_is_not_in_use() -> None:
    card = Card(memory=memory_mib(24576, 500, 24076), memory_v2=memory_mib(24576, 100, 24076))
    assert read_gpus(nvml=play_nvml(card)).gpus[0].used_mib == 100


def test_old_driver_tells_memory_in_the_old_way() -> None:
    card = Card(memory=memory_mib(24576, 500, 24076), memory_v2=pynvml.NVMLError_FunctionNotFound())
    gpu = read_gpus(nvml=play_nvml(card)).gpus[0]
    assert (gpu.total_mib, gpu.used_mib, gpu.free_mib) == (24576, 500, 24076)


@pytest.mark.parametrize(
    "error",
    [
        pynvml.NVMLError_LibraryNotFound(),
        pynvml.NVMLError_DriverNotLoaded(),
        pynvml.NVMLError_LibRmVersionMismatch(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_driver_means_no_cards(error: Exception) -> None:
    nvml = Driver((Card(),), init=error).module
    assert read_gpus(nvml=nvml) == NvmlReading()
    assert free_mib_by_uuid(["GPU-a"], nvml=nvml) == {}


def test_a_start_that_failed_is_tried_again() -> None:
    driver = Driver((Card(),), init=pynvml.NVMLError_DriverNotLoaded())
    nvml = driver.module
    assert read_gpus(nvml=nvml).gpus == ()
    driver.init = None
    assert len(read_gpus(nvml=nvml).gpus) == 1


def test_this_machine_answers_quickly_with_or_without_a_card() -> None:
    started_s = time.monotonic()
    reading = read_gpus()
    assert time.monotonic() - started_s < 20
    assert (reading.driver is None) <= (reading.gpus == ())


@pytest.mark.parametrize("error", [pynvml.NVMLError_NotSupported(), pynvml.NVMLError_NoPermission()], ids=str)
@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ({"uuid"}, {"uuid": None}),
        ({"name"}, {"name": None}),
        ({"bus_id"}, {"bus_id": None}),
        ({"memory", "memory_v2"}, {"total_mib": None, "used_mib": None, "free_mib": None}),
        ({"compute"}, {"users": (DeviceUser(GONE_PID, "?", 20),)}),
        ({"graphics"}, {"users": (DeviceUser(GONE_PID, "?", 10),)}),
        ({"compute", "graphics"}, {"users": ()}),
    ],
    ids=lambda value: "+".join(sorted(value)),
)
def test_a_refused_query_costs_its_field_alone(
    error: Exception, refused: set[str], expected: dict[str, object]
) -> None:
    card = Card(compute=[process(GONE_PID, 10)], graphics=[process(GONE_PID, 20)])
    (whole,) = read_gpus(nvml=play_nvml(card)).gpus
    for name in refused:
        setattr(card, name, error)
    (partial,) = read_gpus(nvml=play_nvml(card)).gpus
    for name in NvidiaGpu.__dataclass_fields__:
        assert getattr(partial, name) == expected.get(name, getattr(whole, name)), name


def test_refused_driver_version_costs_no_card() -> None:
    reading = read_gpus(nvml=Driver((Card(),), version=pynvml.NVMLError_NotSupported()).module)
    assert reading.driver is None
    assert len(reading.gpus) == 1


def test_lost_card_is_left_out_and_the_others_keep_their_index() -> None:
    reading = read_gpus(nvml=play_nvml(Card(lost=pynvml.NVMLError_GpuIsLost()), Card(uuid="GPU-b")))
    assert [(gpu.index, gpu.uuid) for gpu in reading.gpus] == [(1, "GPU-b")]


def test_a_user_is_named() -> None:
    with other_process() as pid:
        (gpu,) = read_gpus(nvml=play_nvml(Card(compute=[process(pid, 3000)]))).gpus
        assert gpu.users == (DeviceUser(pid, psutil.Process(pid).name(), 3000),)


def test_a_user_that_cannot_be_named_is_still_counted() -> None:
    (gpu,) = read_gpus(nvml=play_nvml(Card(compute=[process(GONE_PID, None)]))).gpus
    assert gpu.users == (DeviceUser(GONE_PID, "?", None),)


def test_own_processes_are_no_users() -> None:
    with other_process() as own_child, other_process() as stranger:
        card = Card(
            compute=[process(pid, 10) for pid in (os.getpid(), own_child, stranger)],
            graphics=[process(os.getpid(), 10)],
        )
        (gpu,) = read_gpus([own_child], nvml=play_nvml(card)).gpus
    assert [user.pid for user in gpu.users] == [stranger]


@pytest.mark.parametrize(
    ("compute_mib", "graphics_mib", "expected_mib"),
    [(10, 10, 10), (10, 30, 30), (10, None, 10), (None, 7, 7)],
)
def test_a_process_that_computes_and_draws_is_one_user(
    compute_mib: int | None, graphics_mib: int | None, expected_mib: int
) -> None:
    card = Card(compute=[process(GONE_PID, compute_mib)], graphics=[process(GONE_PID, graphics_mib)])
    (gpu,) = read_gpus(nvml=play_nvml(card)).gpus
    assert gpu.users == (DeviceUser(GONE_PID, "?", expected_mib),)


def test_free_memory_is_read_of_the_cards_asked_for() -> None:
    nvml = play_nvml(
        Card(memory=memory_mib(24576, 500, 24000)),
        Card(uuid="GPU-b", memory=memory_mib(16303, 500, 15000)),
        Card(uuid="GPU-c", memory=pynvml.NVMLError_GpuIsLost()),
    )
    assert free_mib_by_uuid(["GPU-b", "GPU-c", "GPU-unknown"], nvml=nvml) == {"GPU-b": 15000}


def test_nvml_is_started_once() -> None:
    driver = Driver((Card(),))
    nvml = driver.module
    for _ in range(3):
        read_gpus(nvml=nvml)
        free_mib_by_uuid(["GPU-a"], nvml=nvml)
    assert driver.starts == 1
