"""The smallest change that makes a command fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tests.support.strategies import PROPERTY
from tuner.core.assignment.splits import Splits
from tuner.core.memory.need import chance_to_fit
from tuner.core.memory.predict import Predictor
from tuner.core.memory.repair import GOOD_CHANCE, Repair, other_order, repair
from tuner.core.rig import Device

if TYPE_CHECKING:
    from tuner.core.options import Value

SPLITS = Splits(shaped(Shape(n_layers=32)))
CARDS = (Device("CUDA0", "RTX 5080", 16_303, 15_900), Device("CUDA1", "RTX 3090", 24_576, 24_100))
PREDICTOR = Predictor(SPLITS, CARDS)
OPTIONS: dict[str, Value] = {
    "split-mode": "layer",
    "tensor-split": (1, 1),
    "gpu-layers": 999,
    "ctx-size": 16_384,
    "cache-type-k": "f16",
    "cache-type-v": "f16",
    "spec-type": "none",
}


def room(first_mib: float, second_mib: float) -> dict[str, float]:
    return {"CUDA0": first_mib, "CUDA1": second_mib}


def applied(options: dict[str, Value], found: Repair) -> dict[str, Value]:
    merged = {**options, **found.changes}
    return {name: value for name, value in merged.items() if value is not None}


def fits(options: dict[str, Value], rooms: dict[str, float]) -> bool:
    return chance_to_fit(PREDICTOR.predict(options), rooms) >= GOOD_CHANCE


_rooms = st.builds(room, st.floats(1_000, 25_000), st.floats(1_000, 25_000))


@PROPERTY
@given(
    _rooms,
    st.fixed_dictionaries(
        {
            "split-mode": st.sampled_from(["layer", "tensor", "none"]),
            "cache-type-k": st.sampled_from(["f16", "q8_0"]),
            "spec-type": st.sampled_from(["none", "ngram-mod,draft-mtp"]),
            "ctx-size": st.sampled_from([4096, 16_384, 262_144]),
            "gpu-layers": st.sampled_from([10, 33, 999]),
        }
    ),
)
def test_what_is_proposed_fits(rooms: dict[str, float], changes: dict[str, Value]) -> None:
    options = {**OPTIONS, **changes, "cache-type-v": changes["cache-type-k"]}
    found = repair(options, PREDICTOR, SPLITS, rooms)
    if found is not None:
        changed = applied(options, found)
        assert fits(changed, rooms)
        assert all(options.get(name) != value for name, value in found.changes.items())
        assert int(str(changed["gpu-layers"])) >= SPLITS.n_units


# --- the smallest first


def test_command_that_fits_is_not_changed() -> None:
    assert repair(OPTIONS, PREDICTOR, SPLITS, room(40_000, 40_000)) == Repair({}, "")


def test_layers_on_the_host_are_brought_to_the_cards() -> None:
    found = repair({**OPTIONS, "gpu-layers": 10}, PREDICTOR, SPLITS, room(40_000, 40_000))
    assert found is not None
    assert found.changes == {"gpu-layers": 999}


@pytest.mark.parametrize("mode", ["layer", "tensor"])
def test_split_comes_first(mode: str) -> None:
    found = repair({**OPTIONS, "split-mode": mode}, PREDICTOR, SPLITS, room(5_500, 15_000))
    assert found is not None
    assert set(found.changes) == {"tensor-split"}
    split = found.changes["tensor-split"]
    assert isinstance(split, tuple)
    assert int(split[0]) < int(split[1])
    assert found.why == f"-ts {split[0]},{split[1]}"


def test_smaller_cache_comes_before_a_shorter_context() -> None:
    options = {**OPTIONS, "ctx-size": 131_072}
    found = repair(options, PREDICTOR, SPLITS, room(9_500, 10_000))
    assert found is not None
    assert found.changes["cache-type-k"] == found.changes["cache-type-v"] == "q8_0"
    assert "ctx-size" not in found.changes
    assert found.why.endswith("a q8_0 cache")


def test_drafts_go_before_the_context_is_cut() -> None:
    options: dict[str, Value] = {
        **OPTIONS,
        "cache-type-k": "q8_0",
        "cache-type-v": "q8_0",
        "spec-type": "draft-mtp",
    }
    with_drafts = PREDICTOR.predict(options).devices
    tight = {name: need.total + 50 for name, need in with_drafts.items()}
    found = repair(options, PREDICTOR, SPLITS, {**tight, "CUDA0": tight["CUDA0"] + 300})
    assert found is not None
    assert found.changes["spec-type"] == "none"
    assert "ctx-size" not in found.changes


def test_context_is_halved_as_often_as_needed() -> None:
    found = repair({**OPTIONS, "ctx-size": 262_144}, PREDICTOR, SPLITS, room(9_500, 9_500))
    assert found is not None
    context = found.changes["ctx-size"]
    assert context in {131_072, 65_536, 32_768, 16_384}
    assert f"{context:,} tokens of context" in found.why


def test_hopeless_command_has_no_repair() -> None:
    assert repair(OPTIONS, PREDICTOR, SPLITS, room(2_000, 2_000)) is None


def test_devices_whose_room_is_unknown_are_no_error() -> None:
    assert repair(OPTIONS, PREDICTOR, SPLITS, {}) == Repair({}, "")
    found = repair(OPTIONS, PREDICTOR, SPLITS, {"CUDA0": 5_500.0})
    assert found is not None
    assert fits(applied(OPTIONS, found), {"CUDA0": 5_500.0})


# --- another order


def test_other_order_of_the_same_devices_may_fit() -> None:
    options: dict[str, Value] = {**OPTIONS, "tensor-split": (3, 1)}
    rooms = room(6_000, 15_000)
    assert not fits(options, rooms)
    order = other_order(options, PREDICTOR, rooms)
    assert order == ("CUDA1", "CUDA0")
    assert fits({**options, "device": order}, rooms)


def test_no_other_order_where_none_fits_or_there_is_one_device() -> None:
    assert other_order(OPTIONS, PREDICTOR, room(2_000, 2_000)) is None
    assert other_order({**OPTIONS, "split-mode": "none"}, PREDICTOR, room(40_000, 40_000)) is None
