"""Compute buffers against the lines of the engine, build 11434."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models import model, shaped
from tests.support.shape_gguf import Shape
from tests.support.strategies import PROPERTY
from tuner.core.assignment.splits import Splits
from tuner.core.memory.activations import feed_forward_length
from tuner.core.memory.compute import compute_mib
from tuner.core.memory.host import on_host
from tuner.core.memory.placement import place
from tuner.core.memory.query import MemoryQuery

HYBRID = Splits(shaped(Shape()))
CARDS = ("CUDA0", "CUDA1")
QUERY = MemoryQuery(CARDS, "layer", (), 999, 8192)


def compute(query: MemoryQuery, split: tuple[int, ...], of: Splits = HYBRID) -> tuple[float, ...]:
    slicer = of.slicer(query.n_devices)
    placement = place(of.model, query, slicer, split)
    on_cuda = tuple(name.startswith("CUDA") for name in query.devices)
    held = on_host(slicer, query.overrides, placement.owners.count(None))
    return compute_mib(of.model, query, placement, held, on_cuda=on_cuda)


def test_pipeline_of_two_takes_what_the_engine_says() -> None:
    assert compute(QUERY, (50, 16)) == pytest.approx((284.08, 194.06), rel=0.01)


def test_tensor_mode_takes_the_same_on_each_device() -> None:
    assert compute(replace(QUERY, mode="tensor"), (50, 16)) == pytest.approx((150.02, 150.02), rel=0.01)


def test_quantised_cache_is_unpacked_on_cuda() -> None:
    long = replace(QUERY, n_ctx=229_376, type_k="q8_0", type_v="q8_0")
    assert compute(long, (2, 3)) == pytest.approx((2003, 1913), rel=0.01)
    elsewhere = replace(long, devices=("Vulkan0", "Vulkan1"))
    f16 = replace(elsewhere, type_k="f16", type_v="f16")
    assert compute(elsewhere, (2, 3)) == compute(f16, (2, 3))
    assert all(
        more > less for more, less in zip(compute(long, (2, 3)), compute(elsewhere, (2, 3)), strict=True)
    )


@PROPERTY
@given(st.integers(1, 2048), st.sampled_from(["layer", "tensor", "none"]), st.integers(1, 65))
def test_buffer_is_linear_in_ubatch(ubatch: int, mode: str, first: int) -> None:
    cards = CARDS[:1] if mode == "none" else CARDS
    split = (first, 66 - first)[: len(cards)]
    query = replace(QUERY, devices=cards, mode=mode, ubatch=ubatch, n_ctx=65_536)
    one, two = compute(query, split), compute(replace(query, ubatch=2 * ubatch), split)
    zero = tuple(2 * less - more for less, more in zip(one, two, strict=True))
    three = compute(replace(query, ubatch=3 * ubatch), split)
    expected = tuple(more + less - none for less, more, none in zip(one, two, zero, strict=True))
    assert three == pytest.approx(expected)
    assert all(more > less for less, more in zip(one, two, strict=True))


def test_batch_is_no_longer_than_the_context() -> None:
    assert compute(replace(QUERY, n_ctx=256), (1, 1)) == compute(
        replace(QUERY, n_ctx=256, ubatch=256), (1, 1)
    )


@pytest.mark.parametrize("split", [(0, 1), (1, 0)])
def test_device_that_holds_nothing_has_no_buffer(split: tuple[int, ...]) -> None:
    sizes = compute(QUERY, split)
    assert [size > 0 for size in sizes] == [part > 0 for part in split]


def test_no_buffer_anywhere_where_nothing_is_offloaded() -> None:
    assert compute(replace(QUERY, gpu_layers=0, op_offload=False), (1, 1)) == (0.0, 0.0)


def test_card_that_multiplies_with_the_hosts_weights_has_a_buffer_though_it_holds_none() -> None:
    first, second = compute(replace(QUERY, gpu_layers=0), (1, 1))
    assert first > 0
    assert second == 0


def test_middle_device_is_between_the_first_and_the_last() -> None:
    first, middle, last = compute(replace(QUERY, devices=("CUDA0", "CUDA1", "CUDA2")), (1, 1, 1))
    assert first > middle > last


def test_pipeline_ends_where_layers_stay_on_the_host() -> None:
    partly = compute(replace(QUERY, gpu_layers=50), (1, 1))
    assert all(less < more for less, more in zip(partly, compute(QUERY, (1, 1)), strict=True))
    assert partly == pytest.approx((198, 150), rel=0.01)  # the first multiplies with what lies on the host
    alone = compute(replace(QUERY, gpu_layers=50, op_offload=False), (1, 1))
    assert alone == pytest.approx((150, 150), rel=0.01)


def test_device_with_the_output_alone_takes_little() -> None:
    first, last = compute(QUERY, (65, 1))
    assert last < first / 2
    assert compute(replace(QUERY, parallel=8), (65, 1))[1] > last


def test_attention_without_flash_takes_a_matrix_more() -> None:
    slow = replace(QUERY, flash_attention=False)
    more = 512 * 4 * 8192 * 24 / 2**20
    assert compute(slow, (1, 1))[0] == pytest.approx(compute(QUERY, (1, 1))[0] + more)


def test_feed_forward_length_is_read_off_the_widest_matrix() -> None:
    assert feed_forward_length(HYBRID.model) == 17_408
    assert feed_forward_length(model()) == 4 * 5120
