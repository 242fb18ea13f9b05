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
    assert len(set(keys)) == len(keys)
    assert all(why for why, _ in found)
    assert all(broken_rule(here.space, candidate.options) is None for _, candidate in found)
    assert [why for why, _ in found][: len(here.space.starts)] == [one.about for one in here.space.starts]


SPLITS = """
    schema_version = 1
    [parameters.split-mode]
    kind = "choice"
    choices = ["layer", "tensor", "none", "row"]
    [parameters.tensor-split]
    kind = "split"
"""


DUAL = (Path(__file__).parents[2] / "search_spaces" / "dual-gpu.toml").read_text(encoding="utf-8")


def test_what_owners_of_the_cards_published_is_tried() -> None:
    found = starting_candidates(bound(DUAL), PAIR)
    assert len(found) == 2
    why, shared = found[0]
    assert why.startswith("published by owners of the pair")
    assert (shared.devices, shared.split) == (("CUDA0", "CUDA1"), (2, 3))
    assert shared.get("spec-draft-n-max") == 3


def test_a_published_split_goes_to_the_cards_that_it_is_for() -> None:
    swapped = (PAIR[1], PAIR[0])
    _, shared = starting_candidates(bound(DUAL, swapped), swapped)[0]
    names = {device.name: device.description for device in swapped}
    assert [names[name].rpartition("RTX ")[2] for name in shared.devices] == ["5080", "3090"]


def test_other_cards_have_no_published_command() -> None:
    others = (PAIR[0], Device("CUDA1", "NVIDIA GeForce RTX 3090 Ti", 24576, 23808))
    assert starting_candidates(bound(DUAL, others), others) == []


def test_a_published_command_that_the_space_cannot_have_is_left_out() -> None:
    assert starting_candidates(bound(SPLITS), PAIR) == []


def test_what_the_space_begins_with_comes_first_and_once() -> None:
    row = '[[start]]\nabout = "{}"\nsplit-mode = "tensor"\ntensor-split = [{}]\n'
    found = starting_candidates(
        bound(SPLITS + row.format("mine", "4, 6") + row.format("again", "2, 3")), PAIR
    )
    assert [why for why, _ in found] == ["mine"]


def test_a_start_against_a_rule_is_left_out() -> None:
    text = SPLITS + '[[rules]]\nleft = "split-mode"\nop = "!="\nright = "none"\n'
    text += '[[start]]\nabout = "no"\nsplit-mode = "none"\n[[start]]\nabout = "yes"\nsplit-mode = "layer"'
    assert [why for why, _ in starting_candidates(bound(text), PAIR)] == ["yes"]
