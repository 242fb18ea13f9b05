"""Candidates and the numbers that a sampler draws."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.models import splits_of
from tests.support.strategies import PROPERTY, bound_spaces, option_sets, suggestions
from tuner.core.candidate import Candidate
from tuner.core.canonical import canonical
from tuner.core.space_document import parse_space
from tuner.search.coordinates import BoundSpace, complete, coordinates, draw
from tuner.search.dimensions import Categorical, Coordinate, Dimension, Integer, Number

if TYPE_CHECKING:
    from tuner.core.options import Value

SPACES = Path(__file__).parents[2] / "search_spaces"


def shipped(name: str, devices: tuple[str, ...] = ("CUDA0", "CUDA1"), n_units: int = 66) -> BoundSpace:
    text = (SPACES / f"{name}.toml").read_text(encoding="utf-8")
    space = parse_space(name, tomllib.loads(text))
    return BoundSpace(space, devices, splits_of(n_units), imposed={"ctx-size": 8192})


def redrawn(bound: BoundSpace, candidate: Candidate) -> Candidate:
    place = dict(coordinates(bound, candidate))
    return draw(bound, place.__getitem__)


# --- what every draw is


@PROPERTY
@given(st.data(), bound_spaces())
def test_drawing_undoes_coordinates(data: st.DataObject, bound: BoundSpace) -> None:
    candidate = draw(bound, suggestions(data))
    assert redrawn(bound, candidate) == candidate


@pytest.mark.parametrize("name", ["demo", "dual-gpu", "long-context", "offload", "p2p", "quick", "session"])
@settings(PROPERTY, max_examples=20)
@given(data=st.data(), n_devices=st.integers(1, 4), n_units=st.integers(5, 100))
def test_drawing_undoes_coordinates_in_shipped_spaces(
    name: str, data: st.DataObject, n_devices: int, n_units: int
) -> None:
    bound = shipped(name, ("CUDA0", "CUDA1", "CUDA2", "CUDA3")[:n_devices], n_units)
    candidate = draw(bound, suggestions(data))
    assert redrawn(bound, candidate) == candidate


@PROPERTY
@given(st.data(), bound_spaces())
def test_every_draw_is_a_valid_split(data: st.DataObject, bound: BoundSpace) -> None:
    candidate = draw(bound, suggestions(data))
    assert set(candidate.devices) <= set(bound.devices)
    if candidate.get("split-mode") == "none":
        assert (len(candidate.devices), candidate.split) == (1, ())
    else:
        assert len(candidate.split) == len(candidate.devices) == len(set(candidate.devices)) > 1
        assert min(candidate.split) >= 1


@PROPERTY
@given(st.data(), bound_spaces())
def test_every_value_is_one_that_its_dimension_has(data: st.DataObject, bound: BoundSpace) -> None:
    candidate = draw(bound, suggestions(data))
    for dimension, value in coordinates(bound, candidate):
        _check(dimension, value)


@PROPERTY
@given(bound_spaces(), option_sets)
def test_any_candidate_has_a_place(bound: BoundSpace, options: dict[str, Value]) -> None:
    place = coordinates(bound, Candidate.of(options))
    for dimension, value in place:
        _check(dimension, value)
    assert len({dimension.name for dimension, _ in place}) == len(place)


def _check(dimension: Dimension, value: Coordinate) -> None:
    if isinstance(dimension, Categorical):
        assert value in dimension.choices
        return
    assert isinstance(value, (int, float))
    assert dimension.low <= value <= dimension.high
    steps = (value - dimension.low) / dimension.step
    assert steps == pytest.approx(round(steps))
    assert isinstance(value, int) == isinstance(dimension, Integer)


@PROPERTY
@given(st.data(), bound_spaces())
def test_what_is_imposed_is_in_every_draw(data: st.DataObject, bound: BoundSpace) -> None:
    candidate = draw(bound, suggestions(data))
    assert {name: candidate.get(name) for name in bound.imposed} == dict(bound.imposed)


# --- what options physically are

whole_options = option_sets.map(
    lambda options: {"split-mode": "layer", "gpu-layers": 999, "spec-type": "none", **options}
)


@PROPERTY
@given(whole_options, st.integers(2, 100))
def test_canonical_is_idempotent(options: dict[str, Value], n_units: int) -> None:
    once = canonical(options, splits_of(n_units))
    assert canonical(once.options, splits_of(n_units)) == once


@PROPERTY
@given(st.data(), bound_spaces())
def test_every_draw_is_canonical(data: st.DataObject, bound: BoundSpace) -> None:
    candidate = draw(bound, suggestions(data))
    assert canonical(candidate.options, bound.splits) == candidate


TWO: dict[str, Value] = {"device": ("CUDA0", "CUDA1"), "gpu-layers": 999}


@pytest.mark.parametrize(
    ("options", "split"),
    [
        ({**TWO, "split-mode": "layer", "tensor-split": (3, 1)}, (24, 7)),
        ({**TWO, "split-mode": "layer", "tensor-split": (75, 25)}, (24, 7)),
        ({**TWO, "split-mode": "layer", "tensor-split": (6, 2), "gpu-layers": 30}, (3, 1)),
        ({**TWO, "split-mode": "tensor", "tensor-split": (6, 2)}, (3, 1)),
        ({**TWO, "split-mode": "none", "tensor-split": (6, 2)}, ()),
        ({"device": ("CUDA0",), "split-mode": "tensor", "tensor-split": (1,)}, ()),
    ],
)
def test_equal_splits_are_one(options: dict[str, Value], split: tuple[int, ...]) -> None:
    assert canonical(options, splits_of(31)).split == split


def test_a_device_alone_is_not_split() -> None:
    candidate = canonical({"device": ("CUDA0",), "split-mode": "layer"}, splits_of(31))
    assert candidate.get("split-mode") == "none"


def test_the_reduction_means_something_in_tensor_mode_only() -> None:
    options: dict[str, Value] = {**TWO, "GGML_CUDA_ALLREDUCE": "nccl"}
    assert canonical({**options, "split-mode": "tensor"}, splits_of(31)).get("GGML_CUDA_ALLREDUCE") == "nccl"
    assert canonical({**options, "split-mode": "layer"}, splits_of(31)).get("GGML_CUDA_ALLREDUCE") is None


@pytest.mark.parametrize(
    ("spec_type", "left"),
    [
        ("none", set()),
        ("ngram-mod", {"spec-ngram-mod-n-max"}),
        ("draft-mtp", {"spec-draft-n-max", "spec-draft-type-k"}),
        ("ngram-mod,draft-mtp", {"spec-ngram-mod-n-max", "spec-draft-n-max", "spec-draft-type-k"}),
        ("draft-simple", {"spec-draft-n-max", "spec-draft-type-k", "spec-draft-model"}),
    ],
)
def test_draft_options_that_mean_nothing_are_dropped(spec_type: str, left: set[str]) -> None:
    candidate = canonical(
        {
            "split-mode": "none",
            "spec-type": spec_type,
            "spec-draft-n-max": 3,
            "spec-draft-type-k": "f16",
            "spec-draft-model": "d.gguf",
            "spec-ngram-mod-n-max": 64,
        },
        splits_of(31),
    )
    assert set(candidate.options) - {"split-mode", "spec-type"} == left


# --- dimensions by name


def test_a_split_is_drawn_as_cuts() -> None:
    bound = shipped("quick", ("CUDA0", "CUDA1", "CUDA2"))
    candidate = complete(bound, {"split-mode": "tensor", "tensor-split": (5, 3, 2)})
    cuts = [(d, value) for d, value in coordinates(bound, candidate) if d.name.startswith("tensor-split")]
    assert cuts == [
        (Integer("tensor-split/tensor/CUDA0+CUDA1+CUDA2/1", 0, 7), 4),
        (Integer("tensor-split/tensor/CUDA0+CUDA1+CUDA2/2", 0, 7), 6),
    ]


def test_cuts_may_come_in_any_order() -> None:
    bound = shipped("quick", ("CUDA0", "CUDA1", "CUDA2"))

    def suggest(dimension: Dimension) -> Coordinate:
        said: dict[str, Coordinate] = {
            "split-mode": "tensor",
            "tensor-split/tensor/CUDA0+CUDA1+CUDA2/1": 6,
            "tensor-split/tensor/CUDA0+CUDA1+CUDA2/2": 4,
            "ubatch-size": 512,
            "spec-type": "none",
        }
        return said[dimension.name]

    assert draw(bound, suggest).split == (5, 3, 2)


def test_every_layer_split_of_the_finest_grid_can_be_drawn() -> None:
    bound = shipped("demo", ("RPC0", "RPC1"), n_units=31)
    found = {redrawn(bound, complete(bound, {"tensor-split": (k, 31 - k)})).split for k in range(1, 31)}
    assert found == {(k, 31 - k) for k in range(1, 31)}


def test_a_number_is_what_a_person_would_write() -> None:
    bound = shipped("dual-gpu")
    text = (
        "schema_version = 1\n[fixed]\nspec-type = 'draft-mtp'\n"
        "[parameters.spec-draft-p-min]\nkind = 'float'\nlow = 0.1\nhigh = 0.9\nstep = 0.05"
    )
    bound = replace(bound, space=parse_space("s", tomllib.loads(text)))
    dimension = Number("spec-draft-p-min", 0.1, 0.9, 0.05)
    assert draw(bound, lambda _d: 0.15000000000000002).get("spec-draft-p-min") == 0.15
    ((found, value),) = coordinates(bound, complete(bound, {"spec-draft-p-min": 0.15}))
    assert found == dimension
    assert value == pytest.approx(0.15)


def test_a_candidate_outside_the_space_gets_the_nearest_place() -> None:
    bound = shipped("quick")
    far = Candidate.of(
        {
            "split-mode": "tensor",
            "tensor-split": (1, 99),
            "ubatch-size": 2048,
            "spec-type": "draft-mtp",
            "spec-draft-n-max": 64,
        }
    )
    place = {dimension.name: value for dimension, value in coordinates(bound, far)}
    assert place == {
        "split-mode": "tensor",
        "tensor-split/tensor/CUDA0+CUDA1/1": 0,
        "ubatch-size": 1024,
        "spec-type": "draft-mtp",
        "spec-draft-n-max": 6,
    }


# --- completing


def test_what_is_left_open_gets_its_default() -> None:
    candidate = complete(shipped("quick"), {})
    assert candidate.get("split-mode") == "tensor"
    assert candidate.split == (1, 1)
    assert candidate.get("ubatch-size") == 512
    assert candidate.get("spec-type") == "none"
    assert candidate.get("spec-draft-n-max") is None
    assert candidate.get("ctx-size") == 8192


def test_what_is_named_stays() -> None:
    candidate = complete(
        shipped("dual-gpu"),
        {"split-mode": "tensor", "tensor-split": (4, 6), "load-mode": "none", "spec-type": "draft-mtp"},
    )
    assert candidate.split == (2, 3)
    assert candidate.get("load-mode") == "none"
    assert candidate.get("spec-draft-n-max") == 3


def test_what_is_imposed_wins() -> None:
    assert complete(shipped("quick"), {"ctx-size": 1}).get("ctx-size") == 8192


@PROPERTY
@given(bound_spaces())
def test_defaults_are_a_valid_candidate(bound: BoundSpace) -> None:
    candidate = complete(bound, {})
    assert canonical(candidate.options, bound.splits) == candidate
    assert not candidate.split or min(candidate.split) >= 1
