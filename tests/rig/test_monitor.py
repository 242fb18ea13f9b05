"""One look at a played rig for a whole run."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pynvml
import pytest

from tests.support.played_cards import PlayedCard, PlayedDriver, all_answers
from tuner.core.disturbance import disturbance
from tuner.core.interrupt import Interrupted
from tuner.core.monitoring import RigReport
from tuner.core.rig import Device, Rig
from tuner.rig import monitor as monitor_module
from tuner.rig.cool_down import read_temperatures_c, wait_until_cool
from tuner.rig.guarded import Guarded
from tuner.rig.memory_settle import read_holders, wait_until_back
from tuner.rig.monitor import RigMonitor
from tuner.rig.nvml import free_mib_by_uuid
from tuner.rig.telemetry import TelemetrySampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

MIB = 2**20
GONE_PID = 2**31 - 1  # above any pid that Linux gives
RIG = Rig(
    (
        Device("CUDA0", "RTX 5080", 16303, 15900, uuid="GPU-a"),
        Device("CUDA1", "RTX 3090", 24576, 24100, uuid="GPU-b"),
        Device("RPC0", "127.0.0.1:50052", 8000, 8000),
    )
)


@pytest.fixture(autouse=True)
def rpc_server_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none at that address, and nothing here is about it."""
    monkeypatch.setattr(monitor_module, "wait_until_accepting", lambda _endpoints, **_: [])


MEMORY = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo v2")
DEADLINE_S = 10.0


@dataclass
class PlayedRig:
    """Two cards with a driver, and a clock that moves while somebody waits."""

    free_mib: dict[str, int] = field(default_factory=lambda: {"GPU-a": 15_900, "GPU-b": 24_100})
    users: dict[str, list[SimpleNamespace]] = field(default_factory=dict)
    """Processes with memory, by card."""
    cards: tuple[PlayedCard, ...] = ()
    hang: threading.Event | None = None
    """Every question of memory and processes waits for it."""
    hung: list[str] = field(default_factory=list)
    """Threads that wait for it, or did."""
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.cards = tuple(
            PlayedCard(uuid, all_answers() | dict.fromkeys(MEMORY, partial(self._memory, uuid)))
            for uuid in self.free_mib
        )

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def clock(self) -> float:
        return self.now_s

    def hold(self, uuid: str, pid: int, mib: int) -> None:
        """A process takes memory."""
        self.users.setdefault(uuid, []).append(SimpleNamespace(pid=pid, usedGpuMemory=mib * MIB))

    @property
    def module(self) -> ModuleType:
        module = PlayedDriver(self.cards).module
        vars(module).update(
            nvmlDeviceGetCount=lambda: len(self.cards),
            nvmlSystemGetDriverVersion=lambda: "580.1",
            nvmlDeviceGetHandleByIndex=self.cards.__getitem__,
            nvmlDeviceGetUUID=lambda card: card.uuid,
            nvmlDeviceGetName=lambda _card: "NVIDIA GeForce",
            nvmlDeviceGetPciInfo=lambda _card: SimpleNamespace(busId="00000000:01:00.0"),
            nvmlDeviceGetComputeRunningProcesses_v3=self._processes,
            nvmlDeviceGetGraphicsRunningProcesses_v3=lambda _card: [],
        )
        return module

    def _memory(self, uuid: str) -> SimpleNamespace:
        self._wait()
        return SimpleNamespace(free=self.free_mib[uuid] * MIB, used=0, total=24_576 * MIB)

    def _processes(self, card: PlayedCard) -> list[SimpleNamespace]:
        self._wait()
        return self.users.get(card.uuid, [])

    def _wait(self) -> None:
        if self.hang is not None:
            self.hung.append(threading.current_thread().name)
            self.hang.wait(DEADLINE_S)


def play(monkeypatch: pytest.MonkeyPatch, rig: PlayedRig, module: ModuleType) -> None:
    """The monitor asks this driver, and waits by the rig's clock."""
    for name, played in {
        "free_mib_by_uuid": partial(free_mib_by_uuid, nvml=module),
        "read_temperatures_c": partial(read_temperatures_c, nvml=module),
        "read_holders": partial(read_holders, nvml=module),
        "TelemetrySampler": partial(TelemetrySampler, nvml=module, period_s=0.001),
        "wait_until_back": partial(wait_until_back, clock=rig.clock),
        "wait_until_cool": partial(wait_until_cool, clock=rig.clock),
        "Guarded": partial(Guarded, deadline_s=0.05),
    }.items():
        monkeypatch.setattr(monitor_module, name, played)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedRig]:
    rig = PlayedRig()
    play(monkeypatch, rig, rig.module)
    yield rig
    if rig.hang is not None:
        rig.hang.set()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.001)


def launch(
    monitor: RigMonitor, rig: PlayedRig, folder: Path, *, own_pid: int | None = None, rounds: int = 3
) -> RigReport:
    """What is seen of a launch in which each card is read some times."""
    before = rig.cards[-1].asked.get("nvmlDeviceGetPowerUsage", 0)
    monitor.begin()
    until(
        lambda: rig.cards[-1].gone or rig.cards[-1].asked.get("nvmlDeviceGetPowerUsage", 0) >= before + rounds
    )
    return monitor.end(since_s=0.0, until_s=DEADLINE_S, own_pid=own_pid, raw=folder / "telemetry.jsonl")


# --- no driver


@pytest.mark.parametrize("devices", [RIG.devices, RIG.devices[2:]])
def test_without_a_driver_nothing_is_seen_and_nothing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: tuple[Device, ...]
) -> None:
    def missing() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    rig = PlayedRig()
    play(monkeypatch, rig, PlayedDriver((), init=missing).module)
    monitor = RigMonitor(Rig(devices), cool_to_c=40)
    assert monitor.ready(rig.sleep) == []
    monitor.begin()
    report = monitor.end(since_s=0.0, until_s=1.0, own_pid=1, raw=tmp_path / "telemetry.jsonl")
    assert report == RigReport()
    assert monitor.ready(rig.sleep) == []
    assert rig.now_s == 0
    assert list(tmp_path.iterdir()) == []


def test_end_of_a_launch_that_never_began_is_empty(tmp_path: Path, rig: PlayedRig) -> None:
    monitor = RigMonitor(RIG)
    report = monitor.end(since_s=0.0, until_s=1.0, own_pid=None, raw=tmp_path / "telemetry.jsonl")
    assert report == RigReport()
    assert rig.now_s == 0


# --- a launch


def test_cards_are_read_during_a_launch_and_the_series_is_written(tmp_path: Path, rig: PlayedRig) -> None:
    report = launch(RigMonitor(RIG), rig, tmp_path)
    assert set(report.summaries) == {"CUDA0", "CUDA1"}
    assert report.summaries["CUDA1"].power_w == pytest.approx(351.25)
    assert report.lost is None
    lines = [json.loads(line) for line in (tmp_path / "telemetry.jsonl").read_text().splitlines()]
    assert {line["device"] for line in lines} == {"CUDA0", "CUDA1"}
    assert len(lines) >= 6


def test_only_the_measured_part_is_summed_up(tmp_path: Path, rig: PlayedRig) -> None:
    monitor = RigMonitor(RIG)
    monitor.begin()
    until(lambda: rig.cards[1].asked.get("nvmlDeviceGetPowerUsage", 0) >= 3)
    report = monitor.end(since_s=100.0, until_s=200.0, own_pid=None, raw=tmp_path / "telemetry.jsonl")
    assert report.summaries == {}
    assert (tmp_path / "telemetry.jsonl").exists()


def test_series_that_cannot_be_written_ends_nothing(tmp_path: Path, rig: PlayedRig) -> None:
    assert launch(RigMonitor(RIG), rig, tmp_path / "none").summaries


# --- memory


def test_memory_that_comes_back_is_waited_for(rig: PlayedRig) -> None:
    monitor = RigMonitor(RIG)
    rig.free_mib["GPU-b"] = 2000

    def sleep(seconds: float) -> None:
        rig.sleep(seconds)
        if rig.now_s >= 3:
            rig.free_mib["GPU-b"] = 24_050

    assert monitor.ready(sleep) == []
    assert 3 <= rig.now_s < 4


def test_memory_that_does_not_come_back_is_said_once_and_is_the_rig_from_then_on(rig: PlayedRig) -> None:
    monitor = RigMonitor(RIG)
    rig.free_mib["GPU-b"] = 20_000
    rig.hold("GPU-b", GONE_PID, 4100)
    (sentence,) = monitor.ready(rig.sleep)
    assert sentence.startswith("CUDA1 has 4,100 MiB less free than before the first launch, after 30 s")
    assert f"process {GONE_PID}" in sentence
    waited_s = rig.now_s
    assert monitor.ready(rig.sleep) == []
    assert rig.now_s == waited_s
    # what goes beyond that is said again
    rig.free_mib["GPU-b"] = 19_000
    (sentence,) = monitor.ready(rig.sleep)
    assert sentence.startswith("CUDA1 has 1,000 MiB less")


# --- heat


def test_cards_are_waited_for_until_they_are_cool(rig: PlayedRig) -> None:
    rig.cards[0].answers["nvmlDeviceGetTemperature"] = lambda: 71 if rig.now_s < 20 else 50
    rig.cards[1].answers["nvmlDeviceGetTemperature"] = 45
    assert RigMonitor(RIG, cool_to_c=55).ready(rig.sleep) == []
    assert 20 <= rig.now_s < 22


def test_card_that_stays_hot_is_named_and_the_run_goes_on(rig: PlayedRig) -> None:
    rig.cards[1].answers["nvmlDeviceGetTemperature"] = 45
    (sentence,) = RigMonitor(RIG, cool_to_c=55).ready(rig.sleep)
    assert sentence.startswith("CUDA0 is at 71 °C after 600 s of waiting for 55 °C")


@pytest.mark.usefixtures("rig")
def test_a_wait_for_cool_cards_can_be_ended() -> None:
    def interrupted(_seconds: float) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        RigMonitor(RIG, cool_to_c=55).ready(interrupted)


def test_heat_is_not_waited_for_unless_it_was_asked_for(rig: PlayedRig) -> None:
    assert RigMonitor(RIG).ready(rig.sleep) == []
    assert rig.now_s == 0


# --- neighbours


def test_neighbour_who_comes_is_seen_and_our_own_server_is_none(tmp_path: Path, rig: PlayedRig) -> None:
    rig.hold("GPU-a", GONE_PID, 400)
    monitor = RigMonitor(RIG)
    rig.hold("GPU-a", GONE_PID - 1, 2000)
    rig.hold("GPU-b", GONE_PID - 2, 9000)
    report = launch(monitor, rig, tmp_path, own_pid=GONE_PID - 2)
    assert report.others_before_mib == {"CUDA0": 400, "CUDA1": 0}
    assert report.others_now_mib == {"CUDA0": 2400, "CUDA1": 0}
    found = disturbance(
        {},
        study_clock_mhz={},
        others_before_mib=report.others_before_mib,
        others_now_mib=report.others_now_mib,
    )
    assert found is not None
    assert found.device == "CUDA0"


def test_neighbour_who_stays_is_usual_after_three_launches(tmp_path: Path, rig: PlayedRig) -> None:
    monitor = RigMonitor(RIG)
    rig.hold("GPU-b", GONE_PID, 2000)
    expected = [launch(monitor, rig, tmp_path, rounds=1).others_before_mib["CUDA1"] for _ in range(4)]
    assert expected == [0, 0, 0, 2000]


# --- drivers in trouble


def test_card_that_falls_off_the_bus_is_told(tmp_path: Path, rig: PlayedRig) -> None:
    monitor = RigMonitor(RIG)
    rig.cards[1].gone = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    monitor.begin()
    until(lambda: rig.cards[0].asked.get("nvmlDeviceGetPowerUsage", 0) >= 2)
    report = monitor.end(since_s=0.0, until_s=DEADLINE_S, own_pid=None, raw=tmp_path / "telemetry.jsonl")
    assert report.lost is not None
    assert report.lost.startswith("CUDA1: ")
    assert set(report.summaries) == {"CUDA0"}


def test_driver_that_hangs_does_not_hang_the_run(tmp_path: Path, rig: PlayedRig) -> None:
    monitor = RigMonitor(RIG, cool_to_c=90)
    start = time.monotonic()
    report = hung_launch(monitor, rig, tmp_path)
    assert report.others_before_mib == {"CUDA0": 0, "CUDA1": 0}
    assert monitor.ready(rig.sleep) == []
    assert time.monotonic() - start < 5


def test_driver_that_hangs_from_the_start_is_as_none(tmp_path: Path, rig: PlayedRig) -> None:
    rig.hang = threading.Event()
    start = time.monotonic()
    report = hung_launch(RigMonitor(RIG), rig, tmp_path)
    assert report.others_before_mib == {}
    assert time.monotonic() - start < 5


def hung_launch(monitor: RigMonitor, rig: PlayedRig, folder: Path) -> RigReport:
    """What is seen of a launch while every question of memory and processes hangs."""
    rig.hang = rig.hang or threading.Event()
    assert monitor.ready(rig.sleep) == []
    asked = len(rig.hung)
    monitor.begin()
    until(lambda: len(rig.hung) > asked)
    report = monitor.end(since_s=0.0, until_s=DEADLINE_S, own_pid=None, raw=folder / "telemetry.jsonl")
    assert (report.summaries, report.others_now_mib, report.lost) == ({}, {}, None)
    return report


def test_rpc_server_that_stays_away_is_told_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def none_accepts(endpoints: dict[str, str], **_: object) -> list[str]:
        asked.append(endpoints)
        return list(endpoints.values())

    monkeypatch.setattr(monitor_module, "wait_until_accepting", none_accepts)
    pair = Rig((Device("RPC0", "127.0.0.1:50052", 8000, 8000), Device("CPU", "a processor", 1, 1)))
    assert RigMonitor(pair).ready(time.sleep) == [
        "the RPC server of RPC0 does not accept connections; start its ggml-rpc-server again"
    ]
    assert asked == [{"127.0.0.1:50052": "RPC0"}]
