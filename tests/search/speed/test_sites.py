"""Where a model can lie, and what each device then reads for a token."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.models import shaped, splits_of
from tests.support.shape_gguf import Shape
from tuner.core.assignment.layers import layer_units
from tuner.core.assignment.splits import Splits
from tuner.search.speed.sites import Bytes, Site, sites

if TYPE_CHECKING:
    from tuner.core.model import ModelFile, TensorInfo

NAMES = ("CUDA0", "CUDA1", "CUDA2")
DENSE = shaped(Shape(n_layers=16))
TIED = shaped(Shape(architecture="qwen3", n_layers=8, n_mtp=0, tied=True))
EXPERTS = replace(
    shaped(Shape(architecture="qwen3moe", n_layers=8, n_experts=64, n_ff=768, n_mtp=0)), n_expert_used=8
)
MODELS = pytest.mark.parametrize("model", [DENSE, TIED, EXPERTS], ids=["dense", "tied", "experts"])
SPLITS = {1: (), 2: (2, 3), 3: (3, 1, 2)}


def read_bytes(model: ModelFile, tensors: tuple[TensorInfo, ...] | None = None) -> float:
    """What a token reads of a model, or of some of its tensors: layers, output, and the experts that are used."""
    total = 0.0
    for tensor in model.tensors if tensors is None else tensors:
        layer = int(tensor.name.split(".")[1]) if tensor.name.startswith("blk.") else -1
        if layer >= model.n_trunk or (tensor.name == "token_embd.weight" and model is not TIED):
            continue
        total += tensor.size_bytes * (8 / 64 if "_exps" in tensor.name else 1)
    return total


@MODELS
@pytest.mark.parametrize("n", [1, 2, 3])
def test_bytes_of_all_devices_are_what_a_token_reads(model: ModelFile, n: int) -> None:
    site = Site("layer" if n > 1 else "none", NAMES[:n], SPLITS[n])
    found = Bytes(Splits(model), NAMES).of(site)
    assert found.sum() == pytest.approx(read_bytes(model))
    assert (found[:n] > 0).all()
    assert (found[n:] == 0).all()


@MODELS
@pytest.mark.parametrize("n", [2, 3])
def test_by_tensor_each_device_reads_its_slices_and_all_of_what_is_not_cut(model: ModelFile, n: int) -> None:
    splits = Splits(model)
    found = Bytes(splits, NAMES).of(Site("tensor", NAMES[:n], SPLITS[n]))
    whole = tuple(one for one in model.tensors if not splits.slicer(n).of_tensor(one).elements)
    assert found.sum() == pytest.approx(read_bytes(model) + (n - 1) * read_bytes(model, whole))
    assert np.argmax(found[:n]) == np.argmax(SPLITS[n])


def test_of_experts_those_count_that_a_token_passes() -> None:
    site = Site("none", ("CUDA0",), ())
    dense = replace(EXPERTS, n_expert_used=0)
    some, every = (Bytes(Splits(model), NAMES).of(site)[0] for model in (EXPERTS, dense))
    experts = sum(one.size_bytes for one in EXPERTS.tensors if "_exps" in one.name)
    assert every - some == pytest.approx(experts * (1 - 8 / 64))


def test_more_experts_than_there_are_is_all_of_them() -> None:
    site = Site("none", ("CUDA0",), ())
    found = [Bytes(Splits(replace(EXPERTS, n_expert_used=n)), NAMES).of(site)[0] for n in (64, 99)]
    assert found[0] == found[1]


def test_vectors_are_in_the_order_of_the_rig_whatever_the_order_of_the_split() -> None:
    known = Bytes(Splits(DENSE), NAMES)
    for mode in ("layer", "tensor"):
        found = known.of(Site(mode, ("CUDA2", "CUDA0"), (5, 1)))
        assert found[2] > 3 * found[0] > 0
        assert found[1] == 0


def test_the_last_device_of_a_layer_split_reads_the_output() -> None:
    known = Bytes(Splits(DENSE), NAMES[:2])
    output = next(one.size_bytes for one in DENSE.tensors if one.name == "output.weight")
    found = known.of(Site("layer", ("CUDA0", "CUDA1"), (17, 1)))
    assert output <= found[1] < 1.01 * output  # and its norm; the layer before it only drafts


def test_a_split_that_nobody_gives_is_even() -> None:
    known = Bytes(Splits(DENSE), NAMES)
    for mode in ("layer", "tensor"):
        nothing, even = (known.of(Site(mode, NAMES[:2], split)) for split in ((), (1, 1)))
        assert nothing == pytest.approx(even)
        shares = [known.cache_share(Site(mode, NAMES[:2], split)) for split in ((), (1, 1))]
        assert shares[0] == pytest.approx(shares[1])


@MODELS
@pytest.mark.parametrize("mode", ["none", "layer", "tensor"])
def test_the_cache_is_dealt_out_whole(model: ModelFile, mode: str) -> None:
    n = 1 if mode == "none" else 3
    found = Bytes(Splits(model), NAMES).cache_share(Site(mode, NAMES[:n], SPLITS[n]))
    assert found.sum() == pytest.approx(1.0)
    assert (found[n:] == 0).all()


def test_cache_lies_where_its_layers_are() -> None:
    found = Bytes(Splits(DENSE), NAMES[:2]).cache_share(Site("layer", NAMES[:2], (4, 14)))
    assert found == pytest.approx([0.25, 0.75])  # each fourth of 16 layers has one


# --- all sites


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
