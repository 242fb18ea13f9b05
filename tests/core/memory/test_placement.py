"""Where weights, cache and state lie; the numbers are lines of the engine, build 11434."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models import model, shaped
from tests.support.shape_gguf import Shape
from tests.support.strategies import PROPERTY, splits
from tuner.core.assignment.splits import Splits
from tuner.core.memory.overrides import Override
from tuner.core.memory.placement import MIB, Placement, cache_bytes, place
from tuner.core.memory.query import MemoryQuery

if TYPE_CHECKING:
    from tuner.core.model import ModelFile

HYBRID = Splits(shaped(Shape()))
SMALL = Splits(shaped(Shape(n_layers=8, n_embd=256, n_ff=512, n_vocab=1024)))
CARDS = ("CUDA0", "CUDA1")
QUERY = MemoryQuery(CARDS, "layer", (), 999, 8192)
EMBEDDING = 248_320 * 5120 * 34 // 32 / MIB


def placed(query: MemoryQuery, split: tuple[int, ...] = (1, 1), of: Splits = HYBRID) -> Placement:
    return place(of.model, query, of.slicer(query.n_devices), split)


def loaded_mib(of: ModelFile, *, mtp: bool = False) -> float:
    names = [f"blk.{layer}." for layer in range(of.n_trunk, of.n_layers)]
    rows = [tensor for tensor in of.tensors if mtp or not tensor.name.startswith(tuple(names))]
    return sum(tensor.size_bytes for tensor in rows) / MIB


# --- the engine's own lines


def test_layer_mode_gives_the_engines_numbers() -> None:
    found = placed(QUERY, (50, 16))
    assert found.weights == pytest.approx((19290.00, 6682.28), abs=0.01)
    assert found.kv == (384.0, 128.0)
    assert found.recurrent == pytest.approx((118.45, 31.17), abs=0.01)
    assert found.host_weights == pytest.approx(EMBEDDING)
    assert found.host_cache == 0
    assert found.owners == (0,) * 50 + (1,) * 16


def test_cache_bytes_follow_the_types() -> None:
    keys, values = cache_bytes(HYBRID.model, 3, 8192, "f16", "q8_0")
    assert keys / MIB == 16
    assert values / keys == 8.5 / 16


# --- bytes are conserved


@PROPERTY
@given(splits(n_devices=2) | splits(n_devices=3), st.integers(0, 12), st.booleans(), st.booleans())
def test_layer_mode_loads_each_byte_once(
    split: tuple[int, ...],
    gpu_layers: int,
    mtp: bool,  # noqa: FBT001 - drawn
    experts: bool,  # noqa: FBT001 - drawn
) -> None:
    query = replace(
        QUERY,
        devices=("A", "B", "C")[: len(split)],
        gpu_layers=gpu_layers,
        spec=("draft-mtp",) if mtp else (),
        overrides=(Override(r"ffn_(up|down)", "CPU"), Override(r"ffn_gate", "B")) if experts else (),
    )
    found = placed(query, split, SMALL)
    assert sum(found.weights) + found.host_weights == pytest.approx(loaded_mib(SMALL.model, mtp=mtp))
    everything = placed(QUERY, (1, 1), SMALL)
    assert sum(found.kv) + sum(found.recurrent) + found.host_cache == pytest.approx(
        sum(everything.kv) + sum(everything.recurrent)
    )


@PROPERTY
@given(splits(n_devices=2) | splits(n_devices=3))
def test_tensor_mode_cuts_the_cache_and_may_mirror_weights(split: tuple[int, ...]) -> None:
    names = ("A", "B", "C")[: len(split)]
    found = placed(replace(QUERY, devices=names, mode="tensor"), split, SMALL)
    alone = placed(QUERY, (1, 1), SMALL)
    assert sum(found.kv) == pytest.approx(sum(alone.kv))
    assert sum(found.recurrent) == pytest.approx(sum(alone.recurrent))
    assert sum(alone.weights) - 1e-6 <= sum(found.weights) <= len(split) * sum(alone.weights)
    assert found.owners == ()


def test_tensor_mode_halves_what_an_even_split_cuts() -> None:
    found = placed(replace(QUERY, mode="tensor"))
    assert found.weights[0] == pytest.approx(found.weights[1])
    assert found.kv == (256.0, 256.0)


# --- what is there twice, or not at all


def test_tied_embedding_is_counted_on_the_host_and_on_the_last_device() -> None:
    tied = Splits(shaped(Shape(tied=True)))
    own, twice = placed(QUERY, (50, 16)), placed(QUERY, (50, 16), tied)
    assert twice.weights == pytest.approx(own.weights)
    assert twice.host_weights == pytest.approx(own.host_weights)
    assert loaded_mib(tied.model) == pytest.approx(loaded_mib(HYBRID.model) - EMBEDDING)


def test_mtp_layers_are_loaded_for_their_drafts_only() -> None:
    without = placed(QUERY, (50, 16))
    ngram = placed(replace(QUERY, spec=("ngram-mod",)), (50, 16))
    drafting = placed(replace(QUERY, spec=("ngram-mod", "draft-mtp"), draft_depth=3), (50, 16))
    assert ngram.weights == without.weights
    assert drafting.weights[0] == without.weights[0]
    more = loaded_mib(HYBRID.model, mtp=True) - loaded_mib(HYBRID.model)
    assert drafting.weights[1] == pytest.approx(without.weights[1] + more)


def test_states_that_may_be_taken_back_are_kept_for_each_drafted_token() -> None:
    drafting = placed(replace(QUERY, spec=("draft-mtp",), draft_depth=3))
    assert sum(drafting.recurrent) == pytest.approx(4 * sum(placed(QUERY).recurrent))
    assert drafting.kv == placed(QUERY).kv


# --- the host


def test_ngl_leaves_the_first_layers_on_the_host() -> None:
    found = placed(replace(QUERY, gpu_layers=10), (1, 1))
    assert found.owners == (None,) * 56 + (0,) * 5 + (1,) * 5
    assert found.host_cache > 0
    assert found.host_weights > EMBEDDING


def test_nothing_is_offloaded_with_ngl_0() -> None:
    found = placed(replace(QUERY, gpu_layers=0))
    assert found.weights == found.kv == found.recurrent == (0.0, 0.0)


def test_caches_without_kv_offload_are_the_hosts() -> None:
    found, usual = placed(replace(QUERY, kv_offload=False)), placed(QUERY)
    assert found.kv == found.recurrent == (0.0, 0.0)
    assert found.host_cache == pytest.approx(sum(usual.kv) + sum(usual.recurrent))
    assert found.weights == usual.weights


@pytest.mark.parametrize("mode", ["layer", "tensor"])
def test_patterns_keep_their_tensors_on_the_host(mode: str) -> None:
    usual = placed(replace(QUERY, mode=mode))
    found = placed(replace(QUERY, mode=mode, overrides=(Override(r"blk\.0\.ffn_down", "CPU"),)))
    one = 17_408 * 5120 * 34 / 32 / MIB
    assert found.host_weights == pytest.approx(usual.host_weights + one)
    assert sum(found.weights) == pytest.approx(sum(usual.weights) - one)


def test_sliding_window_layers_have_fewer_cells() -> None:
    plain = replace(model(heads=(4,) * 4), tensors=())
    windowed = Splits(replace(plain, windowed=(True, False, False, True), n_swa=512))
    query = replace(QUERY, devices=("CUDA0",), mode="none")
    assert placed(query, (1,), Splits(plain)).kv == (8192 * 4 * 4 / 512,)
    cells = 2 * 8192 + 2 * (512 + 512)
    assert placed(query, (1,), windowed).kv == (cells * 4 * 512 * 2 * 2 / MIB,)
    assert placed(replace(query, swa_full=True), (1,), windowed).kv == (256.0,)
