"""Commands that owners of cards have published."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from tuner.core.options import OPTIONS
from tuner.core.published import PUBLISHED, Published, published_for


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: f"{'+'.join(one.cards)}: {one.claim}")
def test_each_command_is_one_that_the_engine_knows_and_names_its_source(one: Published) -> None:
    assert set(one.options) <= set(OPTIONS)
    assert one.source
    assert one.claim
    split = one.options["tensor-split"]
    assert isinstance(split, tuple)
    assert len(split) == len(one.cards) == 2


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.claim)
def test_owners_of_the_cards_get_it_in_any_order(one: Published) -> None:
    names = [f"NVIDIA GeForce {card}" for card in one.cards]
    assert one in published_for(names)
    assert one in published_for(reversed(names))


def test_pairs_get_their_own_commands_only() -> None:
    mixed = published_for(["NVIDIA GeForce RTX 5080", "NVIDIA GeForce RTX 3090"])
    equal = published_for(["NVIDIA GeForce RTX 3090"] * 2)
    assert len(mixed) == 2
    assert len(equal) == 1
    assert not [one for one in mixed if one in equal]


@pytest.mark.parametrize(
    "descriptions",
    [
        [],
        ["NVIDIA GeForce RTX 3090"],
        ["NVIDIA GeForce RTX 3090"] * 3,
        ["NVIDIA GeForce RTX 5080"] * 2,
        ["NVIDIA GeForce RTX 5080", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090"],
        ["NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 3090"],
        ["NVIDIA GeForce RTX 5080", "10.0.0.2:50052"],
        ["", ""],
    ],
    ids=", ".join,
)
def test_other_cards_get_none(descriptions: list[str]) -> None:
    assert published_for(descriptions) == []


def test_spelling_of_a_name_does_not_matter() -> None:
    assert published_for(["nvidia geforce rtx 3090", " NVIDIA  GeForce RTX  3090 "])


def test_options_cannot_be_changed_by_who_reads_them() -> None:
    assert all(isinstance(one.options, MappingProxyType) for one in PUBLISHED)
