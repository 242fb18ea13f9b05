"""The fewest layers whose experts lie in RAM."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

import pytest
from gguf import GGMLQuantizationType
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tests.support.strategies import PROPERTY
from tuner.core.assignment.splits import Splits
from tuner.core.experts import expert_runs
from tuner.core.memory.host_fit import HostFit, fewest_in_ram
from tuner.core.memory.need import chance_to_fit
from tuner.core.memory.predict import Predictor
from tuner.core.memory.repair import GOOD_CHANCE
from tuner.core.rig import Device

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.core.options import Value

Q8_0 = GGMLQuantizationType.Q8_0
#: 48 layers with 933 MiB of experts each.
LARGE = Splits(
    shaped(
        Shape(
            "qwen3moe", n_layers=48, n_embd=2048, n_ff=768, n_head=32, n_head_kv=4, head_dim=128,
            n_vocab=151_936, n_mtp=0, n_experts=195, weight=Q8_0,
        )
    )
)  # fmt: skip
#: Five layers with 306 MiB of experts each.
SMALL = Splits(
    shaped(
        Shape(
            "qwen3moe", n_layers=5, n_embd=1024, n_ff=1024, n_head=16, n_head_kv=4, head_dim=64,
            n_vocab=32_000, n_mtp=0, n_experts=96, n_experts_used=4, weight=Q8_0,
        )
    )
)  # fmt: skip
CARDS = ("CUDA0", "CUDA1")
OPTIONS: dict[str, Value] = {"ctx-size": 16_384}
EVERY = 5

rooms = st.integers(300, 3_000)


def predictor_of(splits: Splits, names: tuple[str, ...] = CARDS) -> Predictor:
    return Predictor(splits, tuple(Device(name, "card", 16_000, 16_000) for name in names))


def fit(first_mib: float, second_mib: float, splits: Splits = SMALL, host_mib: float = inf) -> HostFit | None:
    room = {"CUDA0": first_mib, "CUDA1": second_mib}
    return fewest_in_ram(OPTIONS, predictor_of(splits), splits, room, host_mib)


def fits(split: tuple[int, ...], layers: Iterable[int], room_mib: dict[str, float]) -> bool:
    """Whether a launch over both cards fits as surely as is asked for."""
    entries = tuple(run.entry for run in expert_runs(layers))
    options = {**OPTIONS, "tensor-split": split, "override-tensor": entries}
    needs = predictor_of(SMALL).predict(options).devices
    sure = GOOD_CHANCE ** (1 / len(needs))
    return all(need.chance_to_fit(room_mib[name]) >= sure for name, need in needs.items())


# --- the owner's case


def test_owners_cards_are_filled_with_fewer_layers_in_ram() -> None:
    """16 and 15 GB: 27 layers in RAM by a shorthand that did not fit, 20 here, both cards filled by 90 %."""
    found = fit(15_900, 15_100, LARGE)
    assert found is not None
    assert len(found.host_layers) == 20
    first, last = (need.total for need in found.prediction.devices.values())
    assert first > 0.9 * 15_900
    assert last > 0.9 * 15_100


def test_cards_that_hold_everything_keep_the_pipeline() -> None:
    found = fit(31_000, 23_000, LARGE)
    assert found is not None
    assert found.host_layers == ()
    assert found.changes["override-tensor"] is None
    assert found.changes["n-cpu-moe"] is None


# --- what holds for any room


@PROPERTY
@given(rooms, rooms)
def test_no_card_is_asked_for_more_than_it_has(first: int, second: int) -> None:
    found = fit(first, second)
    if found is None:
        return
    room_mib = {"CUDA0": float(first), "CUDA1": float(second)}
    assert all(need.total <= room_mib[name] for name, need in found.prediction.devices.items())
    launched = {name: value for name, value in {**OPTIONS, **found.changes}.items() if value is not None}
    predicted = predictor_of(SMALL).predict(launched)
    assert predicted.devices == found.prediction.devices
    assert predicted.host_total_mib == found.prediction.host_total_mib
    assert chance_to_fit(predicted, room_mib) >= GOOD_CHANCE


@PROPERTY
@given(rooms, rooms, st.integers(0, 1_000), st.integers(0, 1_000))
def test_more_room_never_puts_more_in_ram(first: int, second: int, more: int, still_more: int) -> None:
    less, roomier = fit(first, second), fit(first + more, second + still_more)
    if less is not None:
        assert roomier is not None
        assert len(roomier.host_layers) <= len(less.host_layers)


@PROPERTY
@given(rooms, rooms)
@example(1372, 924)  # fewest where the first device gives up more than it has to elsewhere
@example(1672, 1267)  # one layer ends the pipeline, and it has to be the second device's
def test_one_layer_less_in_ram_does_not_fit(first: int, second: int) -> None:
    found = fit(first, second)
    fewer = EVERY if found is None else len(found.host_layers) - 1
    if fewer < 0:
        return
    room_mib = {"CUDA0": float(first), "CUDA1": float(second)}
    assert not any(
        fits(split, layers, room_mib)
        for split in SMALL.distinct("layer", 2, SMALL.n_units)
        for layers in combinations(range(EVERY), fewer)
    )


@PROPERTY
@given(rooms, rooms, st.integers(0, 2_000))
def test_host_is_not_asked_for_more_than_it_has(first: int, second: int, host: int) -> None:
    found = fit(first, second, host_mib=host)
    if found is not None:
        assert found.prediction.host_total_mib <= host


# --- what it becomes


def test_first_layers_alone_are_said_by_the_engines_shorthand() -> None:
    found = fit(900, 9_000)
    assert found is not None
    assert found.host_layers == (0,)
    assert (found.changes["n-cpu-moe"], found.changes["override-tensor"]) == (1, None)


def test_layers_of_the_last_card_are_said_by_their_numbers() -> None:
    found = fit(9_000, 2_000, LARGE)
    assert found is not None
    entries = found.changes["override-tensor"]
    assert entries == tuple(run.entry for run in expert_runs(found.host_layers))
    assert found.changes["n-cpu-moe"] is None
    assert found.changes["tensor-split"] == found.split


def test_what_the_command_said_of_experts_is_taken_away() -> None:
    room = {"CUDA0": 2_500.0, "CUDA1": 2_500.0}
    said: dict[str, Value] = {**OPTIONS, "cpu-moe": True, "tensor-split": (9, 1), "gpu-layers": 3}
    found = fewest_in_ram(said, predictor_of(SMALL), SMALL, room)
    assert found == fit(2_500, 2_500)
    assert found is not None
    assert found.changes["cpu-moe"] is None


def test_one_card_is_filled_too() -> None:
    found = fewest_in_ram(OPTIONS, predictor_of(LARGE, ("CUDA0",)), LARGE, {"CUDA0": 24_000.0})
    assert found is not None
    assert found.changes["tensor-split"] is None
    assert found.changes["n-cpu-moe"] == len(found.host_layers)
    (need,) = found.prediction.devices.values()
    assert 0.9 * 24_000 < need.total <= 24_000


def test_three_cards_are_filled_too() -> None:
    names = ("CUDA0", "CUDA1", "CUDA2")
    room = dict.fromkeys(names, 11_000.0)
    found = fewest_in_ram(OPTIONS, predictor_of(LARGE, names), LARGE, room)
    assert found is not None
    assert all(need.total <= 11_000 for need in found.prediction.devices.values())


@pytest.mark.parametrize("room_mib", [100.0, 500.0])
def test_cards_too_small_for_the_rest_have_no_fit(room_mib: float) -> None:
    assert fit(room_mib, room_mib) is None


def test_a_dense_model_keeps_the_feed_forward_parts_of_its_first_layers_in_ram() -> None:
    dense = Splits(shaped(Shape(n_layers=8)))
    predictor = predictor_of(dense)
    whole = predictor.predict({**OPTIONS, "split-mode": "layer", "tensor-split": (4, 5)}).devices
    room = {name: need.total - 1.5 * dense.host_parts.sizes[0] / 2**20 for name, need in whole.items()}
    found = fewest_in_ram(OPTIONS, predictor, dense, room)
    assert found is not None
    assert found.host_layers == tuple(range(len(found.host_layers)))
    assert found.changes["n-cpu-ffn"] == len(found.host_layers)
    assert 3 <= len(found.host_layers) < 8


def test_layers_of_uneven_experts_lose_the_largest_first() -> None:
    wide = replace(
        SMALL.model,
        tensors=tuple(
            replace(tensor, size_bytes=2 * tensor.size_bytes)
            if tensor.name.startswith("blk.2.") and "_exps" in tensor.name
            else tensor
            for tensor in SMALL.model.tensors
        ),
    )
    splits = Splits(wide)
    sizes = splits.host_parts.sizes
    assert sizes[2] == 2 * sizes[1]
    found = fewest_in_ram(OPTIONS, predictor_of(splits, ("CUDA0",)), splits, {"CUDA0": 2_400.0})
    assert found is not None
    assert found.host_layers == (2,)
