"""What the engine's own tool makes of the arithmetic."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.memory.need import DeviceNeed, Prediction
from tuner.core.memory.oracle import FitRow, Scale, scale_of, sharpened

FIRST = DeviceNeed(
    weights=19290.0,
    kv=384.0,
    recurrent=118.45,
    compute=284.0,
    draft=50.0,
    projector=9.0,
    runtime=625.0,
    sigma=150.0,
)
LAST = DeviceNeed(weights=6682.3, kv=128.0, recurrent=31.2, compute=194.0, runtime=625.0, sigma=150.0)
BOTH = Prediction(MappingProxyType({"CUDA0": FIRST, "CUDA1": LAST}), (0, 1), 1288.3, "tuner")

AGREEING = (
    FitRow("CUDA0", 19290, 502, 284),
    FitRow("CUDA1", 6682, 159, 1010),
    FitRow("Host", 1288, 0, 26),
)


def test_scale_is_1_where_both_agree_to_whole_mib() -> None:
    assert scale_of(BOTH, AGREEING) == Scale()


def test_scale_is_what_the_tool_says_over_what_was_reckoned() -> None:
    rows = (FitRow("CUDA0", 20290, 1004, 568), FitRow("CUDA1", 6682, 319, 9999))
    scale = scale_of(BOTH, rows)
    assert scale.weights == pytest.approx(26972 / 25972.3)
    assert scale.cache == pytest.approx(2, rel=0.01)
    assert scale.compute == pytest.approx(2)


def test_buffer_of_the_device_with_the_output_is_not_compared() -> None:
    alone = Prediction(MappingProxyType({"CUDA0": FIRST}), (0,), 0.0, "tuner")
    assert scale_of(alone, (FitRow("CUDA0", 19290, 502, 5000),)).compute == 1


@pytest.mark.parametrize("rows", [(), (FitRow("Vulkan0", 1, 1, 1),), (FitRow("CUDA0", 0, 0, 0),)])
def test_tool_that_says_nothing_of_a_device_changes_nothing(rows: tuple[FitRow, ...]) -> None:
    assert scale_of(BOTH, rows) == Scale()


def test_tools_figures_take_the_place_of_ours() -> None:
    found = sharpened(BOTH, (FitRow("CUDA0", 20000, 600, 300), FitRow("Host", 1000, 7, 26)))
    first = found.devices["CUDA0"]
    assert first.weights == 20000
    assert first.kv + first.recurrent == pytest.approx(600)
    assert first.compute == 300
    assert (first.draft, first.projector, first.runtime, first.sigma) == (50.0, 9.0, 625.0, 150.0)
    assert found.devices["CUDA1"] == LAST
    assert found.host_mib == 1007
    assert found.source == "llama-fit-params"
    assert found.owners == BOTH.owners


def test_smaller_buffer_counts_on_the_device_with_the_output() -> None:
    assert sharpened(BOTH, AGREEING).devices["CUDA1"].compute == 194
    less = (FitRow("CUDA1", 6682, 159, 100),)
    assert sharpened(BOTH, less).devices["CUDA1"].compute == 100


def test_host_stays_where_the_tool_has_no_row_for_it() -> None:
    assert sharpened(BOTH, ()).host_mib == 1288.3


_amounts = st.integers(0, 30_000)


@PROPERTY
@given(_amounts, _amounts, _amounts)
def test_sharpened_agrees_with_the_tool(weights: int, context: int, compute: int) -> None:
    found = sharpened(BOTH, (FitRow("CUDA0", weights, context, compute),)).devices["CUDA0"]
    assert found.weights == weights
    assert found.compute == compute
    assert found.kv + found.recurrent == pytest.approx(max(context, FIRST.recurrent))
