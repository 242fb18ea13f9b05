"""Memory that has to stay free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.trials import measured
from tuner.core.outcome import Kind, Phase, Stage
from tuner.core.reserve import default_reserve_mib, over_reserve
from tuner.core.rig import Device

CARD = Device("CUDA0", "NVIDIA GeForce RTX 5080", total_mib=16303, free_mib=15900)
RPC = Device("RPC0", "127.0.0.1:50052", total_mib=200, free_mib=200, stated=True)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (replace(CARD, total_mib=8192), 256),
        (CARD, 326),
        (replace(CARD, used_by_others_mib=900), 900),
        (replace(CARD, used_by_others_mib=100), 326),
        (RPC, 0),
    ],
)
def test_defaults(device: Device, expected: int) -> None:
    assert default_reserve_mib(device) == expected


def test_too_little_left_free_is_out_of_memory() -> None:
    found = over_reserve(replace(measured(50.0), free_mib={"CUDA0": 255}), (CARD,), {"CUDA0": 256})
    assert found is not None
    assert (found.kind, found.phase, found.stage) == (Kind.OUT_OF_MEMORY, Phase.BENCHMARK, Stage.RUNTIME)
    assert found.device == "CUDA0"
    assert found.evidence == "255 MiB left free on CUDA0, 256 MiB are to stay free"


@pytest.mark.parametrize("free", [{"CUDA0": 256}, {}, {"CUDA1": 0}])
def test_enough_or_unknown_is_well(free: dict[str, int]) -> None:
    assert over_reserve(replace(measured(50.0), free_mib=free), (CARD,), {"CUDA0": 256}) is None


def test_a_device_without_a_reserve_may_be_full() -> None:
    assert over_reserve(replace(measured(50.0), free_mib={"CUDA0": 0}), (CARD,), {}) is None


@pytest.mark.parametrize(("buffers_mib", "over"), [(150.0, False), (200.0, False), (200.5, True)])
def test_stated_memory_less_the_buffers_is_what_is_left(buffers_mib: float, *, over: bool) -> None:
    found = over_reserve(replace(measured(50.0), buffers_mib={"RPC0": buffers_mib}), (RPC,), {"RPC0": 0})
    assert (found is not None) == over


def test_buffers_say_nothing_about_a_card_whose_memory_was_not_stated() -> None:
    result = replace(measured(50.0), buffers_mib={"CUDA0": 99999.0})
    assert over_reserve(result, (CARD,), {"CUDA0": 256}) is None


def test_the_drivers_figure_decides() -> None:
    result = replace(measured(50.0), free_mib={"RPC0": 50}, buffers_mib={"RPC0": 999.0})
    assert over_reserve(result, (RPC,), {"RPC0": 10}) is None
