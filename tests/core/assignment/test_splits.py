"""Which splits are one and the same, and what each is written as."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.models import model, splits_of
from tests.support.strategies import PROPERTY, model_splits, splits
from tuner.core.assignment.layers import layer_units
from tuner.core.assignment.splits import Splits

if TYPE_CHECKING:
    Split = tuple[int, ...]

modes = st.sampled_from(["layer", "tensor"])


def used(split: Split) -> list[bool]:
    return [part > 0 for part in split]


# --- the simplest ratio


@PROPERTY
@given(model_splits(), modes, splits())
def test_the_simplest_ratio_of_the_simplest_is_itself(made: Splits, mode: str, split: Split) -> None:
    simplest = made.simplest(mode, split)
    assert made.simplest(mode, simplest) == simplest
    assert made.same(mode, simplest, split)


@PROPERTY
@given(model_splits(), splits(n_devices=2))
def test_the_simplest_ratio_cuts_alike(made: Splits, split: Split) -> None:
    simplest = made.simplest("tensor", split)
    assert made.slices(simplest) == made.slices(split)
    assert used(simplest) == used(split)
    assert sum(simplest) <= sum(split)


@PROPERTY
@given(model_splits(most_layers=8), splits(n_devices=2, largest=40), splits(n_devices=2, largest=40))
def test_two_ratios_have_one_simplest_just_when_they_cut_alike(
    made: Splits, one: Split, other: Split
) -> None:
    assume(used(one) == used(other))
    alike = made.slices(one) == made.slices(other)
    assert (made.simplest("tensor", one) == made.simplest("tensor", other)) == alike


@PROPERTY
@given(model_splits(), splits())
def test_in_layer_mode_it_is_the_units(made: Splits, split: Split) -> None:
    assert made.simplest("layer", split) == layer_units(split, made.n_units)


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        # four heads of 512: the first of two devices gets floor(4 * share) of them, and of 136 blocks
        # floor(136 * share); where the second comes first it is the same of the other's share
        ((50, 50), (1, 1)),
        ((75, 25), (3, 1)),
        ((100, 0), (1, 0)),
        ((0, 7), (0, 1)),
        ((68, 68), (1, 1)),
        ((17, 119), (1, 7)),
    ],
)
def test_known_tensor_splits(split: Split, expected: Split) -> None:
    assert splits_of(31).simplest("tensor", split) == expected


def test_a_device_with_a_share_is_not_written_as_one_without() -> None:
    """Three heads of which blocks keep two together: `1,0` is cut as `99,1`, and is another command."""
    three_heads = Splits(
        replace(
            model(architecture="llama", heads=(3,) * 4), n_head=9, head_dim_k=64, head_dim_v=64, tensors=()
        )
    )
    assert three_heads.slices((99, 1)) == three_heads.slices((1, 0))
    assert three_heads.simplest("tensor", (99, 1)) == (2, 1)
    assert three_heads.simplest("tensor", (1, 0)) == (1, 0)


# --- all different splits


@PROPERTY
@given(model_splits(most_layers=40), st.integers(2, 40))
def test_no_two_of_the_different_splits_are_one(made: Splits, steps: int) -> None:
    for mode in ("layer", "tensor"):
        different = made.distinct(mode, 2, steps)
        for one, other in combinations(different, 2):
            assert not made.same(mode, one, other)


@PROPERTY
@given(model_splits(most_layers=40), st.integers(3, 12))
def test_no_two_three_way_layer_splits_are_one(made: Splits, steps: int) -> None:
    for one, other in combinations(made.distinct("layer", 3, steps), 2):
        assert not made.same("layer", one, other)


@PROPERTY
@given(model_splits(most_layers=40), modes, st.integers(2, 40), st.data())
def test_every_step_is_one_of_the_different_splits(
    made: Splits, mode: str, steps: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, steps - 1))
    assert made.simplest(mode, (first, steps - first)) in made.distinct(mode, 2, steps)


def test_the_different_splits_are_ordered_by_what_the_first_device_gets() -> None:
    assert splits_of(4).distinct("layer", 2, 4) == ((1, 3), (2, 2), (3, 1))
    assert splits_of(31).distinct("tensor", 2, 4) == ((1, 3), (1, 1), (3, 1))


# --- whether two splits are one


@PROPERTY
@given(model_splits(most_layers=12), splits(n_devices=3, largest=20), splits(n_devices=3, largest=20))
def test_three_way_tensor_splits_are_one_when_they_cut_alike(made: Splits, one: Split, other: Split) -> None:
    assert made.same("tensor", one, other) == (made.slices(one) == made.slices(other))
    assert made.same("tensor", one, tuple(3 * part for part in one))


def test_three_way_splits_by_hand() -> None:
    """Four heads over three devices: 1, 1 and the rest, whoever comes first in a layer."""
    four_heads = Splits(replace(model(heads=(4,) * 8), tensors=()))
    assert four_heads.slices((1, 1, 1))[0] == (512, 512, 1024)
    assert four_heads.same("tensor", (1, 1, 1), (5, 5, 6))
    # where the second comes first, 1,1,2 gives two heads to the third, and 1,1,1 to the first
    assert not four_heads.same("tensor", (1, 1, 1), (1, 1, 2))


def test_three_way_layer_splits_are_one_when_their_units_are() -> None:
    made = splits_of(31)
    assert made.same("layer", (50, 25, 25), (16, 8, 7))
    assert not made.same("layer", (50, 25, 25), (15, 8, 8))


def test_splits_over_different_numbers_of_devices_are_never_one() -> None:
    assert not splits_of(31).same("layer", (1, 1), (1, 1, 0))
    assert not splits_of(31).same("tensor", (1, 1), (1, 1, 0))
