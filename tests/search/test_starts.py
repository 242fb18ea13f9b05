"""Candidates to begin with."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.support.models import splits_of
from tuner.core.rig import Device
from tuner.core.space import broken_rule
from tuner.core.space_document import parse_space
from tuner.search.coordinates import BoundSpace
from tuner.search.starts import starting_candidates

SPACES = sorted((Path(__file__).parents[2] / "search_spaces").glob("*.toml"))
PAIR = (
    Device("CUDA0", "NVIDIA GeForce RTX 5080", 16303, 15872),
    Device("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 23808),
)


def bound(text: str, devices: tuple[Device, ...] = PAIR) -> BoundSpace:
    space = parse_space("s", tomllib.loads(text))
    return BoundSpace(space, tuple(device.name for device in devices), splits_of(66), {"ctx-size": 8192})


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_shipped_spaces_begin_with_different_candidates_that_keep_the_rules(path: Path) -> None:
    here = bound(path.read_text(encoding="utf-8"))
    found = starting_candidates(here, PAIR)
    keys = [candidate.key() for _, candidate in found]
    assert len(set(keys)) == len(keys) > 1
    assert all(why for why, _ in found)
    assert all(broken_rule(here.space, candidate.options) is None for _, candidate in found)
    assert found[0][0] == here.space.starts[0].about


SPLITS = """
    schema_version = 1
    [parameters.split-mode]
    kind = "choice"
    choices = ["layer", "tensor", "none", "row"]
    [parameters.tensor-split]
    kind = "split"
"""


def test_splits_as_memory_is_free_and_each_device_alone() -> None:
    found = starting_candidates(bound(SPLITS), PAIR)
    assert [(why, one.get("split-mode"), one.devices, one.split) for why, one in found] == [
        ("split as memory is free, layer", "layer", ("CUDA0", "CUDA1"), (27, 39)),
        ("split as memory is free, tensor", "tensor", ("CUDA0", "CUDA1"), (2, 3)),
        ("CUDA0 alone", "none", ("CUDA0",), ()),
        ("CUDA1 alone", "none", ("CUDA1",), ()),
    ]


def test_one_device_is_not_split() -> None:
    found = starting_candidates(bound(SPLITS, PAIR[:1]), PAIR[:1])
    assert [why for why, _ in found] == ["CUDA0 alone"]


def test_a_split_that_is_not_searched_is_not_varied() -> None:
    text = 'schema_version = 1\n[fixed]\nsplit-mode = "layer"\ntensor-split = [1, 1]'
    assert starting_candidates(bound(text), PAIR) == []


def test_a_fixed_mode_is_kept() -> None:
    text = 'schema_version = 1\n[fixed]\nsplit-mode = "tensor"\n[parameters.tensor-split]\nkind = "split"'
    found = starting_candidates(bound(text), PAIR)
    assert [(why, one.split) for why, one in found] == [("split as memory is free, tensor", (2, 3))]


def test_what_the_space_begins_with_comes_first_and_once() -> None:
    text = SPLITS + '[[start]]\nabout = "mine"\nsplit-mode = "tensor"\ntensor-split = [4, 6]'
    found = starting_candidates(bound(text), PAIR)
    assert [why for why, _ in found] == [
        "mine",
        "split as memory is free, layer",
        "CUDA0 alone",
        "CUDA1 alone",
    ]


def test_a_start_against_a_rule_is_left_out() -> None:
    text = SPLITS + '[[rules]]\nleft = "split-mode"\nop = "!="\nright = "none"'
    found = starting_candidates(bound(text), PAIR)
    assert [one.get("split-mode") for _, one in found] == ["layer", "tensor"]


def test_a_device_without_free_memory_still_gets_a_part() -> None:
    full = (PAIR[0], Device("CUDA1", "full", 24576, 0))
    layer = next(one for _, one in starting_candidates(bound(SPLITS, full), full))
    assert layer.split == (65, 1)
