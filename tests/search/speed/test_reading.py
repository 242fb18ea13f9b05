"""What each device reads for a token, and for one that is drafted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.search.speed.reading import Reading
from tuner.search.speed.sites import Site

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
    found = Reading(Splits(model), NAMES).of_token(site)
    assert found.sum() == pytest.approx(read_bytes(model))
    assert (found[:n] > 0).all()
    assert (found[n:] == 0).all()


@MODELS
@pytest.mark.parametrize("n", [2, 3])
def test_by_tensor_each_device_reads_its_slices_and_all_of_what_is_not_cut(model: ModelFile, n: int) -> None:
    splits = Splits(model)
    found = Reading(splits, NAMES).of_token(Site("tensor", NAMES[:n], SPLITS[n]))
    whole = tuple(one for one in model.tensors if not splits.slicer(n).of_tensor(one).elements)
    assert found.sum() == pytest.approx(read_bytes(model) + (n - 1) * read_bytes(model, whole))
    assert np.argmax(found[:n]) == np.argmax(SPLITS[n])


def test_of_experts_those_count_that_a_token_passes() -> None:
    site = Site("none", ("CUDA0",), ())
    dense = replace(EXPERTS, n_expert_used=0)
    some, every = (Reading(Splits(model), NAMES).of_token(site)[0] for model in (EXPERTS, dense))
    experts = sum(one.size_bytes for one in EXPERTS.tensors if "_exps" in one.name)
    assert every - some == pytest.approx(experts * (1 - 8 / 64))


def test_more_experts_than_there_are_is_all_of_them() -> None:
    site = Site("none", ("CUDA0",), ())
    found = [Reading(Splits(replace(EXPERTS, n_expert_used=n)), NAMES).of_token(site)[0] for n in (64, 99)]
    assert found[0] == found[1]


def test_vectors_are_in_the_order_of_the_rig_whatever_the_order_of_the_split() -> None:
    known = Reading(Splits(DENSE), NAMES)
    for mode in ("layer", "tensor"):
        found = known.of_token(Site(mode, ("CUDA2", "CUDA0"), (5, 1)))
        assert found[2] > 3 * found[0] > 0
        assert found[1] == 0


def test_the_last_device_of_a_layer_split_reads_the_output() -> None:
    known = Reading(Splits(DENSE), NAMES[:2])
    output = next(one.size_bytes for one in DENSE.tensors if one.name == "output.weight")
    found = known.of_token(Site("layer", ("CUDA0", "CUDA1"), (17, 1)))
    assert output <= found[1] < 1.01 * output  # and its norm; the layer before it only drafts


def test_a_split_that_nobody_gives_is_even() -> None:
    known = Reading(Splits(DENSE), NAMES)
    for mode in ("layer", "tensor"):
        nothing, even = (known.of_token(Site(mode, NAMES[:2], split)) for split in ((), (1, 1)))
        assert nothing == pytest.approx(even)
        shares = [known.cache_share(Site(mode, NAMES[:2], split)) for split in ((), (1, 1))]
        assert shares[0] == pytest.approx(shares[1])


@MODELS
@pytest.mark.parametrize("mode", ["none", "layer", "tensor"])
def test_the_cache_is_dealt_out_whole(model: ModelFile, mode: str) -> None:
    n = 1 if mode == "none" else 3
    found = Reading(Splits(model), NAMES).cache_share(Site(mode, NAMES[:n], SPLITS[n]))
    assert found.sum() == pytest.approx(1.0)
    assert (found[n:] == 0).all()


def test_cache_lies_where_its_layers_are() -> None:
    found = Reading(Splits(DENSE), NAMES[:2]).cache_share(Site("layer", NAMES[:2], (4, 14)))
    assert found == pytest.approx([0.25, 0.75])  # each fourth of 16 layers has one


# --- drafted tokens


def drafting_bytes(model: ModelFile) -> float:
    """What a drafted token reads: MTP layers and the output."""
    total = 0.0
    for tensor in model.tensors:
        layer = int(tensor.name.split(".")[1]) if tensor.name.startswith("blk.") else None
        if tensor.name.startswith("output") or (layer is not None and layer >= model.n_trunk):
            total += tensor.size_bytes
    return total


@pytest.mark.parametrize("mode", ["none", "layer"])
def test_a_drafted_token_reads_the_drafting_layers_and_the_output_on_the_last_device(mode: str) -> None:
    n = 1 if mode == "none" else 2
    found = Reading(Splits(DENSE), NAMES[:2]).of_draft(Site(mode, NAMES[:n], SPLITS[n]))
    assert found[n - 1] == pytest.approx(drafting_bytes(DENSE))
    assert found.sum() == pytest.approx(drafting_bytes(DENSE))


def test_in_the_other_order_it_is_the_other_device_that_drafts() -> None:
    known = Reading(Splits(DENSE), NAMES[:2])
    there, back = (known.of_draft(Site("layer", names, (9, 9))) for names in (NAMES[:2], NAMES[1::-1]))
    assert there[1] == back[0] > 0 == there[0] == back[1]


def test_by_tensor_all_devices_draft_together() -> None:
    found = Reading(Splits(DENSE), NAMES[:2]).of_draft(Site("tensor", NAMES[:2], (1, 1)))
    assert found[0] == pytest.approx(found[1], rel=0.01)
    assert drafting_bytes(DENSE) <= found.sum() < 1.05 * drafting_bytes(DENSE)
