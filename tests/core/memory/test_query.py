"""What of a command decides memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, option_sets
from tuner.core.memory.query import BITS, MemoryQuery, bits, query_of

if TYPE_CHECKING:
    from tuner.core.options import Value

CARDS = ("CUDA0", "CUDA1")


def of(devices: tuple[str, ...] = CARDS, **options: Value) -> MemoryQuery:
    """The query of options whose dashes are written as underscores."""
    return query_of({name.replace("_", "-"): value for name, value in options.items()}, devices)


def query(n_ctx: int, *, parallel: int = 1, kv_unified: bool = False, ubatch: int = 512) -> MemoryQuery:
    return MemoryQuery(
        CARDS, "layer", (), 999, n_ctx, parallel=parallel, kv_unified=kv_unified, ubatch=ubatch
    )


# --- cells


@pytest.mark.parametrize(
    ("n_ctx", "cells"), [(1, 256), (256, 256), (257, 512), (8192, 8192), (100_000, 100_096)]
)
def test_cells_are_padded_to_256(n_ctx: int, cells: int) -> None:
    assert query(n_ctx).cells == cells


def test_each_slot_has_a_stream_of_its_own() -> None:
    slots = query(10_000, parallel=3)
    assert (slots.cells, slots.streams) == (3584, 3)


def test_unified_cache_is_one_stream_with_all_cells() -> None:
    slots = query(10_000, parallel=3, kv_unified=True)
    assert (slots.cells, slots.streams) == (10_240, 1)


@PROPERTY
@given(st.integers(0, 10**6), st.integers(1, 64), st.booleans())
def test_streams_hold_every_token_in_whole_steps(n_ctx: int, parallel: int, kv_unified: bool) -> None:  # noqa: FBT001 - drawn
    slots = query(n_ctx, parallel=parallel, kv_unified=kv_unified)
    assert slots.cells % 256 == 0
    assert n_ctx <= slots.cells * slots.streams < n_ctx + 256 * (slots.streams + 1)


def test_window_needs_its_tokens_and_one_batch() -> None:
    assert query(100_000).window_cells(1024) == 1024 + 512
    assert query(100_000, ubatch=700).window_cells(1024) == 1792


def test_window_of_a_unified_cache_is_there_for_each_slot() -> None:
    assert query(100_000, parallel=4, kv_unified=True).window_cells(1024) == 4 * 1024 + 512
    assert query(100_000, parallel=4).window_cells(1024) == 1024 + 512


def test_window_has_no_more_cells_than_the_context() -> None:
    assert query(512).window_cells(4096) == 512


def test_swa_full_gives_a_window_all_cells() -> None:
    assert of(ctx_size=100_000, swa_full=True).window_cells(1024) == 100_096


# --- state rows


@pytest.mark.parametrize(
    ("spec", "rows"),
    [("none", 2), ("ngram-mod", 2), ("draft-simple", 2), ("draft-mtp", 8), ("ngram-mod,draft-mtp", 8)],
)
def test_only_drafts_that_are_taken_back_keep_more_states(spec: str, rows: int) -> None:
    assert of(parallel=2, spec_type=spec, spec_draft_n_max=3).state_rows == rows


def test_depth_of_drafts_is_the_engines_own_where_none_is_said() -> None:
    assert of(spec_type="draft-mtp").draft_depth == 3
    assert of(spec_type="ngram-mod", spec_draft_n_max=8).draft_depth == 0


# --- what ends the pipeline


def test_any_pattern_ends_the_pipeline() -> None:
    assert of().pipelined
    assert not of(cpu_moe=True).pipelined
    assert not of(override_tensor="no such tensor=CUDA1").pipelined
    assert of(n_cpu_moe=0).pipelined
    assert not of(kv_offload=False).pipelined
    assert not of(split_mode="tensor").pipelined
    assert not of(("CUDA0",)).pipelined


# --- devices and split


@pytest.mark.parametrize("mode", ["layer", "tensor", "row", "none"])
def test_single_device_is_mode_none(mode: str) -> None:
    alone = of(("CUDA0",), split_mode=mode, tensor_split=(2, 3))
    assert (alone.devices, alone.mode, alone.split) == (("CUDA0",), "none", (2,))


@pytest.mark.parametrize(("main", "device"), [(0, "CUDA0"), (1, "CUDA1"), (7, "CUDA0"), (-1, "CUDA0")])
def test_main_gpu_is_the_one_device_of_mode_none(main: int, device: str) -> None:
    assert of(split_mode="none", main_gpu=main).devices == (device,)


def test_main_gpu_means_nothing_in_layer_mode() -> None:
    assert of(main_gpu=1).devices == CARDS


def test_devices_of_the_command_come_in_its_order() -> None:
    assert of(device=("CUDA1", "CUDA0")).devices == ("CUDA1", "CUDA0")


def test_device_none_is_the_host_alone() -> None:
    assert of(device=("none",)).devices == ()


@pytest.mark.parametrize(
    ("written", "split"),
    [((3,), (3, 0)), ((1, 2, 5), (1, 2)), ((0, 0), ()), ((0, 0, 5), ()), ((0, 1), (0, 1)), ((), ())],
)
def test_split_is_kept_as_the_engine_keeps_it(written: tuple[int, ...], split: tuple[int, ...]) -> None:
    assert of(tensor_split=written).split == split


# --- the rest


def test_ubatch_is_cut_to_the_batch() -> None:
    assert of(ubatch_size=4096, batch_size=1024).ubatch == 1024
    assert of(ubatch_size=256, batch_size=1024).ubatch == 256


@pytest.mark.parametrize(
    ("reduction", "nccl"), [(None, True), ("", True), ("nccl", True), ("internal", False), ("none", False)]
)
def test_allreduce_variable_says_whether_nccl_is_used(reduction: str | None, *, nccl: bool) -> None:
    options = {} if reduction is None else {"GGML_CUDA_ALLREDUCE": reduction}
    assert query_of(options, CARDS).nccl is nccl


@pytest.mark.parametrize(("said", "on"), [("on", True), ("auto", True), ("off", False)])
def test_flash_attention_is_on_unless_it_is_off(said: str, *, on: bool) -> None:
    assert of(flash_attn=said).flash_attention is on


def test_unknown_cache_type_counts_as_f16() -> None:
    assert bits("q8_0") == 8.5
    assert bits("turbo9") == BITS["f16"]


@PROPERTY
@given(option_sets)
def test_any_options_have_a_query_with_one_proportion_a_device(options: dict[str, Value]) -> None:
    made = query_of(options, CARDS)
    assert made.split == () or len(made.split) == len(made.devices) or made.devices == ()
    assert made.mode != "none" or len(made.devices) <= 1
    assert made.state_rows >= 1
