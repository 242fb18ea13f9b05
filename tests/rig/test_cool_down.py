"""Waiting for cool cards, on a clock that the tests move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pynvml
import pytest

from tests.support.played_cards import PlayedCard, PlayedDriver
from tuner.core.readiness import Settled, TooHot
from tuner.rig.cool_down import read_temperatures_c, wait_until_cool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def wait(read: Callable[[float], Mapping[str, int]], limit_c: int) -> tuple[Settled | TooHot, list[float]]:
    slept_s: list[float] = []
    found = wait_until_cool(
        lambda: read(sum(slept_s)),
        limit_c,
        deadline_s=60,
        sleep=slept_s.append,
        clock=lambda: sum(slept_s),
    )
    return found, slept_s


def test_a_cool_card_is_not_waited_for() -> None:
    assert wait(lambda _: {"CUDA0": 45, "CUDA1": 30}, 45) == (Settled(), [])


def test_a_hot_card_is_waited_for() -> None:
    found, _ = wait(lambda now_s: {"CUDA0": round(80 - now_s), "CUDA1": 30}, 45)
    assert found == Settled(35)


def test_a_card_that_stays_hot_is_named() -> None:
    found, slept_s = wait(lambda _: {"CUDA0": 50, "CUDA1": 61}, 45)
    assert found == TooHot("CUDA1", 61, 45, 60)
    assert sum(slept_s) == 60


def test_without_temperatures_there_is_no_wait() -> None:
    assert wait(lambda _: {}, 45) == (Settled(), [])


def test_temperatures_are_read_of_the_cards_that_answer() -> None:
    warm, gone, silent = PlayedCard("GPU-a"), PlayedCard("GPU-b"), PlayedCard("GPU-c")
    gone.gone = pynvml.NVMLError_GpuIsLost()
    silent.answers["nvmlDeviceGetTemperature"] = pynvml.NVMLError_NotSupported()
    devices = {"GPU-c": "CUDA2", "GPU-b": "CUDA1", "GPU-a": "CUDA0", "GPU-d": "CUDA3"}
    assert read_temperatures_c(devices, nvml=PlayedDriver((warm, gone, silent)).module) == {"CUDA0": 71}


@pytest.mark.parametrize(
    "error", [pynvml.NVMLError_LibraryNotFound(), pynvml.NVMLError_DriverNotLoaded()], ids=str
)
def test_without_a_driver_there_are_no_temperatures(error: Exception) -> None:
    def no_driver() -> None:
        raise error

    nvml = PlayedDriver((PlayedCard(),), init=no_driver).module
    assert read_temperatures_c({"GPU-a": "CUDA0"}, nvml=nvml) == {}
