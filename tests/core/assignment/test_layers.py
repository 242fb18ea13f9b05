"""What ratios are in layer mode, by the engine's own rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, splits
from tuner.core.assignment.layers import layer_units, reduced

units = st.integers(1, 200)


def engine_rule(split: tuple[int, ...], n_units: int) -> tuple[int, ...]:
    """llama-model.cpp of build 11434, line by line, in 32-bit floats."""
    splits = np.cumsum(np.array(split, dtype=np.float32), dtype=np.float32)
    splits /= splits[-1]
    counts = [0] * len(split)
    for i in range(n_units):
        position = np.float32(i) / np.float32(n_units)
        counts[int(np.searchsorted(splits, position, side="right"))] += 1  # std::upper_bound
    return tuple(counts)


@pytest.mark.parametrize(
    ("split", "n_units", "expected"),
    [
        ((3, 1), 31, (24, 7)),  # seen on a server: 24 layers, and 6 layers and the output
        ((24, 7), 31, (24, 7)),
        ((1, 1), 31, (16, 15)),
        ((31, 0), 31, (31, 0)),
        ((0, 31), 31, (0, 31)),
        ((1, 0, 1), 4, (2, 0, 2)),
        ((75, 25), 66, (50, 16)),
        ((1, 1), 1, (1, 0)),
        ((1, 99), 10, (1, 9)),
        ((99, 1), 10, (10, 0)),
    ],
)
def test_known_splits(split: tuple[int, ...], n_units: int, expected: tuple[int, ...]) -> None:
    assert layer_units(split, n_units) == expected


@PROPERTY
@given(splits(largest=40_000), units)
def test_the_rule_is_the_engines(split: tuple[int, ...], n_units: int) -> None:
    assert layer_units(split, n_units) == engine_rule(split, n_units)


@PROPERTY
@given(splits(), units)
def test_all_units_are_dealt_out(split: tuple[int, ...], n_units: int) -> None:
    counts = layer_units(split, n_units)
    assert sum(counts) == n_units
    assert len(counts) == len(split)
    assert all(share > 0 for share, count in zip(split, counts, strict=True) if count)


@PROPERTY
@given(splits(), units)
def test_a_result_used_as_a_split_gives_itself(split: tuple[int, ...], n_units: int) -> None:
    counts = layer_units(split, n_units)
    assert layer_units(counts, n_units) == counts


@pytest.mark.parametrize("n_units", [1, 2, 31, 65, 199, 200])
def test_every_two_way_split_gives_itself(n_units: int) -> None:
    for first in range(n_units + 1):
        assert layer_units((first, n_units - first), n_units) == (first, n_units - first)


@PROPERTY
@given(splits(), st.integers(1, 50), units)
def test_equal_proportions_are_equal(split: tuple[int, ...], factor: int, n_units: int) -> None:
    multiple = tuple(part * factor for part in split)
    assert reduced(multiple) == reduced(split)
    assert layer_units(reduced(split), n_units) == layer_units(reduced(multiple), n_units)


@pytest.mark.parametrize(
    ("split", "expected"), [((10, 10), (1, 1)), ((4, 6, 0), (2, 3, 0)), ((0, 7), (0, 1)), ((3, 2), (3, 2))]
)
def test_smallest_numbers(split: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert reduced(split) == expected
