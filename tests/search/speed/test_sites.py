"""Where a model can lie."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.models import splits_of
from tuner.core.assignment.layers import layer_units
from tuner.search.speed.sites import Site, sites

NAMES = ("CUDA0", "CUDA1", "CUDA2")


def all_sites(
    *modes: str, names: tuple[str, ...] = NAMES, orders: bool = True, subsets: bool = True, steps: int = 6
) -> list[Site]:
    splits = splits_of(9)
    return list(sites(splits, names, modes=modes, tensor_steps=steps, orders=orders, subsets=subsets))


def test_no_site_is_there_twice() -> None:
    found = all_sites("none", "layer", "tensor")
    assert len(set(found)) == len(found)
    units = [(site.devices, layer_units(site.split, 9)) for site in found if site.mode == "layer"]
    assert len(set(units)) == len(units)


def test_each_device_of_a_site_has_a_part() -> None:
    assert all(all(site.split) for site in all_sites("layer", "tensor"))


def test_layers_are_moved_one_by_one() -> None:
    found = all_sites("layer", names=NAMES[:2], orders=False)
    assert [site.split for site in found] == [(first, 9 - first) for first in range(1, 9)]


def test_orders_and_subsets_are_tried_where_the_space_says_so() -> None:
    def lists(mode: str, *, orders: bool, subsets: bool) -> set[tuple[str, ...]]:
        return {site.devices for site in all_sites(mode, orders=orders, subsets=subsets)}

    pairs = {("CUDA0", "CUDA1"), ("CUDA0", "CUDA2"), ("CUDA1", "CUDA2")}
    assert lists("layer", orders=False, subsets=False) == {NAMES}
    assert lists("layer", orders=False, subsets=True) == {NAMES, *pairs}
    swapped = {(second, first) for first, second in pairs}
    assert lists("layer", orders=True, subsets=True) == {NAMES, *pairs, *swapped}
    assert lists("tensor", orders=True, subsets=True) == {NAMES, *pairs}  # no order makes a difference


def test_a_device_alone_is_a_site_where_the_mode_is_there_or_nothing_else_is() -> None:
    alone = [Site("none", (name,), ()) for name in NAMES]
    assert all_sites("none") == alone
    assert [site for site in all_sites("none", "layer") if site.mode == "none"] == alone
    assert all_sites("layer", "tensor", names=NAMES[:1]) == alone[:1]


def test_too_many_splits_are_thinned_out_evenly() -> None:
    many = list(sites(splits_of(99), NAMES, modes=("layer",), tensor_steps=20, orders=False, subsets=False))
    firsts = sorted({site.split[0] for site in many})
    assert 300 < len(many) <= 1_000
    assert firsts[0] <= 4
    assert firsts[-1] >= 90
    assert max(high - low for low, high in pairwise(firsts)) <= 4


@pytest.mark.parametrize(
    ("only", "found"),
    [
        ((8, 4), {("layer", (6, 3)), ("tensor", (2, 1))}),
        ((), {("layer", ()), ("tensor", ())}),
        ((1, 1, 1), set()),
    ],
)
def test_a_split_that_does_not_vary_is_the_only_one(
    only: tuple[int, ...], found: set[tuple[str, tuple[int, ...]]]
) -> None:
    given = sites(
        *(splits_of(9), NAMES[:2]),
        modes=("layer", "tensor"),
        tensor_steps=6,
        orders=False,
        subsets=False,
        only=only,
    )
    assert {(site.mode, site.split) for site in given} == found
