"""Telemetry beside a launch, whatever the driver does."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

import pynvml
import pytest

from tests.support.played_cards import PlayedCard, PlayedDriver, all_answers
from tuner.core.rig import Device, Rig
from tuner.core.telemetry import GpuReading, Throttle
from tuner.errors import ResultsError
from tuner.rig.gpu_figures import GpuFigures
from tuner.rig.telemetry import TelemetrySampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ONE = {"GPU-a": "CUDA0"}
TWO = {"GPU-a": "CUDA0", "GPU-b": "CUDA1"}
PERIOD_S = 0.002

FIELDS = {
    "nvmlDeviceGetUtilizationRates": {"utilisation_pct", "memory_utilisation_pct"},
    "nvmlDeviceGetPowerUsage": {"power_w"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetClockInfo sm": {"sm_clock_mhz"},
    "nvmlDeviceGetClockInfo mem": {"mem_clock_mhz"},
    "nvmlDeviceGetCurrPcieLinkGeneration": {"pcie_gen"},
    "nvmlDeviceGetCurrPcieLinkWidth": {"pcie_width"},
    "nvmlDeviceGetPcieThroughput tx": {"pcie_tx_mib_s"},
    "nvmlDeviceGetPcieThroughput rx": {"pcie_rx_mib_s"},
    "nvmlDeviceGetTotalEnergyConsumption": {"energy_j"},
}


def wait_for(condition: Callable[[], object], limit_s: float = 10.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.001)


def rows(sampler: TelemetrySampler, device: str = "CUDA0") -> list[GpuReading]:
    return [reading for reading in sampler.window() if reading.device == device]


def samplers_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "telemetry"}


def sampler_of(*cards: PlayedCard, devices: dict[str, str] | None = None) -> TelemetrySampler:
    names = ONE if devices is None else devices
    return TelemetrySampler(names, nvml=PlayedDriver(cards).module, period_s=PERIOD_S)


@contextmanager
def hanging() -> Iterator[tuple[Callable[[], int], Event]]:
    """A call that hangs for half a minute, unless the test is over; and what says that it has begun."""
    begun, test_over = Event(), Event()

    def call() -> int:
        begun.set()
        test_over.wait(30)
        return 1

    try:
        yield call, begun
    finally:
        test_over.set()


def test_every_function_used_exists_in_the_real_module() -> None:
    for name in PlayedDriver(()).functions():
        assert hasattr(pynvml, name), name


def test_each_figure_is_read_in_its_unit() -> None:
    with sampler_of(PlayedCard()) as sampler:
        wait_for(sampler.window)
    first = sampler.window()[0]
    assert first == GpuReading(
        device="CUDA0",
        time_s=first.time_s,
        used_mib=20_000,
        utilisation_pct=97,
        memory_utilisation_pct=61,
        power_w=351.25,
        temperature_c=71,
        sm_clock_mhz=1695,
        mem_clock_mhz=9501,
        throttle=frozenset({Throttle.SW_POWER_CAP, Throttle.SW_THERMAL}),
        pcie_gen=4,
        pcie_width=8,
        pcie_tx_mib_s=2.0,
        pcie_rx_mib_s=0.5,
        energy_j=1234.567,
    )


def test_bits_of_throttling_are_those_of_the_real_module() -> None:
    names = {
        "GpuIdle": Throttle.IDLE,
        "ApplicationsClocksSetting": Throttle.APPLICATIONS_CLOCKS,
        "SwPowerCap": Throttle.SW_POWER_CAP,
        "HwSlowdown": Throttle.HW_SLOWDOWN,
        "SyncBoost": Throttle.SYNC_BOOST,
        "SwThermalSlowdown": Throttle.SW_THERMAL,
        "HwThermalSlowdown": Throttle.HW_THERMAL,
        "HwPowerBrakeSlowdown": Throttle.HW_POWER_BRAKE,
        "DisplayClockSetting": Throttle.DISPLAY_CLOCK,
    }
    card = PlayedCard()
    figures = GpuFigures(PlayedDriver((card,)).module, "GPU-a", "CUDA0", lambda call: call())
    assert set(names.values()) == set(Throttle)
    for name, reason in names.items():
        bit = getattr(pynvml, f"nvmlClocksEventReason{name}")
        card.answers["nvmlDeviceGetCurrentClocksEventReasons"] = bit
        assert figures.read(0.0, with_traffic=False).throttle == frozenset({reason})
    card.answers["nvmlDeviceGetCurrentClocksEventReasons"] = pynvml.nvmlClocksEventReasonNone
    assert figures.read(0.0, with_traffic=False).throttle == frozenset()


def test_all_cards_of_the_rig_are_read_and_no_other() -> None:
    cards = [PlayedCard(uuid) for uuid in ("GPU-a", "GPU-b", "GPU-c")]
    rig = Rig(
        (
            Device("CUDA1", "RTX 3090", 24_576, 24_000, uuid="GPU-b"),
            Device("CUDA0", "RTX 5080", 16_303, 16_000, uuid="GPU-a"),
            Device("RPC0", "127.0.0.1:50052", 8_000, 8_000),
        )
    )
    sampler = TelemetrySampler(rig, nvml=PlayedDriver(tuple(cards)).module, period_s=PERIOD_S)
    with sampler:
        wait_for(lambda: rows(sampler, "CUDA0") and rows(sampler, "CUDA1"))
    assert {reading.device for reading in sampler.window()} == {"CUDA0", "CUDA1"}
    assert cards[2].asked == {}


def test_time_goes_on_and_a_window_is_a_part_of_it() -> None:
    with sampler_of(PlayedCard()) as sampler:
        wait_for(lambda: len(rows(sampler)) > 2)
        begin = sampler.mark()
        wait_for(lambda: len(sampler.window(begin)) > 2)
        end = sampler.mark()
        wait_for(lambda: rows(sampler)[-1].time_s > end)
    times = [reading.time_s for reading in sampler.window()]
    assert times == sorted(set(times))
    inside = [reading.time_s for reading in sampler.window(begin, end)]
    assert inside == [one for one in times if begin <= one <= end]
    assert 0 < len(inside) < len(times)


def test_the_traffic_of_the_link_is_not_asked_for_each_time() -> None:
    card = PlayedCard()
    with sampler_of(card) as sampler:
        wait_for(lambda: len(rows(sampler)) > 10)
    asked = [reading.pcie_tx_mib_s is not None for reading in rows(sampler)]
    assert asked[:6] == [True, False, False, False, False, True]


def test_memory_is_asked_for_in_the_old_way_where_the_driver_is_old() -> None:
    card = PlayedCard()
    card.answers["nvmlDeviceGetMemoryInfo v2"] = pynvml.NVMLError_FunctionNotFound()
    card.answers["nvmlDeviceGetCurrentClocksEventReasons"] = pynvml.NVMLError_FunctionNotFound()
    with sampler_of(card) as sampler:
        wait_for(lambda: len(rows(sampler)) > 2)
    assert {(reading.used_mib, reading.throttle) for reading in rows(sampler)} == {
        (20_400, frozenset({Throttle.IDLE}))
    }
    assert card.asked["nvmlDeviceGetMemoryInfo v2"] == 1


@pytest.mark.parametrize("question", FIELDS)
def test_a_refused_figure_costs_its_field_alone_and_is_asked_for_once(question: str) -> None:
    card = PlayedCard()
    card.answers[question] = pynvml.NVMLError_NotSupported()
    with sampler_of(card) as sampler:
        wait_for(lambda: len(rows(sampler)) > 6)
    first = rows(sampler)[0]
    missing = {name for name in GpuReading.__dataclass_fields__ if getattr(first, name) is None}
    assert missing == FIELDS[question]
    assert card.asked[question] == 1


def test_a_figure_that_fails_now_and_then_is_asked_for_again() -> None:
    answers = iter([pynvml.NVMLError_Unknown(), pynvml.NVMLError_Timeout()])

    def temperature() -> int:
        for error in answers:
            raise error
        return 71

    card = PlayedCard()
    card.answers["nvmlDeviceGetTemperature"] = temperature
    with sampler_of(card) as sampler:
        wait_for(lambda: len(rows(sampler)) > 3)
    assert [reading.temperature_c for reading in rows(sampler)[:4]] == [None, None, 71, 71]


@pytest.mark.parametrize("error", [pynvml.NVMLError_GpuIsLost(), pynvml.NVMLError_ResetRequired()], ids=str)
def test_a_lost_card_is_named_and_the_other_is_still_read(error: Exception) -> None:
    first, second = PlayedCard("GPU-a"), PlayedCard("GPU-b")
    with sampler_of(first, second, devices=TWO) as sampler:
        wait_for(lambda: rows(sampler, "CUDA0"))
        lost_at_first = sampler.lost
        first.gone = error
        wait_for(lambda: sampler.lost)
        at_s = sampler.mark()
        wait_for(lambda: len(sampler.window(at_s)) > 2)
    assert (lost_at_first, sampler.lost) == (None, f"CUDA0: {error}")
    assert {reading.device for reading in sampler.window(at_s)} == {"CUDA1"}


def test_a_card_that_was_lost_before_is_named() -> None:
    with sampler_of(PlayedCard(gone=pynvml.NVMLError_GpuIsLost())) as sampler:
        wait_for(lambda: sampler.lost)
    assert sampler.lost == "CUDA0: GPU is lost"


def test_a_card_that_fell_off_the_bus_is_lost() -> None:
    with sampler_of(PlayedCard(xids=[79])) as sampler:
        wait_for(lambda: sampler.lost)
    assert sampler.lost == "CUDA0: XID 79"


def test_errors_that_a_program_makes_lose_no_card() -> None:
    with sampler_of(PlayedCard(xids=[31, 43])) as sampler:
        wait_for(lambda: len(sampler.xids) == 2)
        wait_for(lambda: len(rows(sampler)) > 2)
    assert sampler.xids == (("CUDA0", 31), ("CUDA0", 43))
    assert sampler.lost is None


def test_a_driver_that_reports_no_errors_is_read_all_the_same() -> None:
    card = PlayedCard(xids=[79])
    card.answers["nvmlDeviceRegisterEvents"] = pynvml.NVMLError_NotSupported()
    with sampler_of(card) as sampler:
        wait_for(lambda: len(rows(sampler)) > 2)
    assert (sampler.lost, sampler.xids) == (None, ())


def test_what_the_driver_keeps_for_the_reader_is_given_back() -> None:
    driver = PlayedDriver((PlayedCard(),))
    with TelemetrySampler(ONE, nvml=driver.module, period_s=PERIOD_S) as sampler:
        wait_for(sampler.window)
    assert [events.freed for events in driver.event_sets] == [True]


def test_a_call_that_hangs_holds_nobody_up() -> None:
    card = PlayedCard()
    nvml = PlayedDriver((card,)).module
    with hanging() as (call, begun):
        sampler = TelemetrySampler(ONE, nvml=nvml, period_s=PERIOD_S)
        sampler.start()
        wait_for(lambda: len(rows(sampler)) > 2)
        card.answers["nvmlDeviceGetPowerUsage"] = call
        assert begun.wait(10)
        began = time.monotonic()
        before = sampler.window()
        sampler.mark()
        sampler.stop()
        assert sampler.window() == before
        assert time.monotonic() - began < 0.5
        assert len(before) > 2
        assert sampler.problem is not None
        assert "has not answered" in sampler.problem

        threads = samplers_threads()
        later = TelemetrySampler(ONE, nvml=nvml, period_s=PERIOD_S)
        with later:
            assert later.problem == "NVML hangs since an earlier launch: no telemetry"
            assert samplers_threads() <= threads
        assert later.window() == ()
    # The call has come back: what it brought came too late, and the next sampler reads again.
    card.answers = all_answers()
    wait_for(lambda: sampler._thread is not None and not sampler._thread.is_alive())
    assert sampler.window() == before
    with TelemetrySampler(ONE, nvml=nvml, period_s=PERIOD_S) as again:
        wait_for(again.window)
        assert again.problem is None


def test_a_driver_that_hangs_when_it_is_started_holds_nobody_up() -> None:
    with hanging() as (call, begun):
        sampler = TelemetrySampler(ONE, nvml=PlayedDriver((PlayedCard(),), init=call).module)
        began = time.monotonic()
        sampler.start()
        assert begun.wait(10)
        sampler.stop()
        assert time.monotonic() - began < 0.5
        assert sampler.window() == ()


def test_silence_is_a_problem_while_the_launch_still_runs() -> None:
    now_s = [0.0]
    with hanging() as (call, begun):
        driver = PlayedDriver((PlayedCard(),), init=call)
        sampler = TelemetrySampler(ONE, nvml=driver.module, clock=lambda: now_s[0])
        sampler.start()
        assert begun.wait(10)
        at_first = sampler.problem
        now_s[0] = 12.0
        assert (at_first, sampler.problem) == (None, "NVML has not answered for 12 s")
        sampler.stop()


def test_an_error_that_nobody_expects_ends_the_telemetry_alone() -> None:
    card = PlayedCard()
    card.answers["nvmlDeviceGetPowerUsage"] = "no number"
    with sampler_of(card) as sampler:
        wait_for(lambda: sampler.problem)
    assert sampler.window() == ()
    assert str(sampler.problem).startswith("no telemetry: ")


def test_without_a_driver_there_is_nothing_to_read() -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    sampler = TelemetrySampler(ONE, nvml=PlayedDriver((), init=no_driver).module)
    with sampler:
        wait_for(lambda: sampler.problem)
    assert sampler.window() == ()
    assert sampler.lost is None


def test_this_machine_is_read_or_not_but_never_in_the_way() -> None:
    began = time.monotonic()
    with TelemetrySampler(ONE) as sampler:
        sampler.mark()
    assert time.monotonic() - began < 0.5
    assert sampler.window() == ()  # no card has this identity


def test_a_rig_without_cards_costs_no_thread() -> None:
    rig = Rig((Device("RPC0", "127.0.0.1:50052", 8_000, 8_000),))
    threads = samplers_threads()
    with TelemetrySampler(rig) as sampler:
        assert samplers_threads() <= threads
    assert (sampler.window(), sampler.lost, sampler.problem) == ((), None, None)


def test_a_card_that_the_driver_does_not_know_costs_itself_alone() -> None:
    with sampler_of(PlayedCard("GPU-b"), devices=TWO) as sampler:
        wait_for(lambda: rows(sampler, "CUDA1"))
    assert rows(sampler, "CUDA0") == []
    assert sampler.problem == "no telemetry of CUDA0: Not Found"


def test_the_series_is_written_as_lines_of_json(tmp_path: Path) -> None:
    with sampler_of(PlayedCard()) as sampler:
        wait_for(lambda: len(rows(sampler)) > 2)
    path = tmp_path / "telemetry.jsonl"
    sampler.write(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert tuple(GpuReading.from_json(json.loads(line)) for line in lines) == sampler.window()


def test_no_series_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    TelemetrySampler({}).write(path)
    assert not path.exists()


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with sampler_of(PlayedCard()) as sampler:
        wait_for(sampler.window)
    with pytest.raises(ResultsError, match=r"missing/telemetry\.jsonl cannot be written: No such file"):
        sampler.write(tmp_path / "missing" / "telemetry.jsonl")
