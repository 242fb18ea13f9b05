"""What of the layers can lie in host memory, and how that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tests.support.strategies import PROPERTY
from tuner.core.assignment.splits import Splits
from tuner.core.canonical import canonical
from tuner.core.host_parts import HostParts
from tuner.core.memory.overrides import override_of, overrides_of

if TYPE_CHECKING:
    from tuner.core.options import Value

N = 12
MOE = Splits(shaped(Shape("qwen3moe", n_layers=N, n_embd=256, n_ff=256, n_mtp=0, n_experts=8)))
DENSE = Splits(shaped(Shape("qwen3", n_layers=N, n_embd=256, n_ff=512, n_mtp=0)))
layer_sets = st.frozensets(st.integers(0, N - 1))


@PROPERTY
@given(layer_sets)
def test_what_is_written_is_read_again(layers: frozenset[int]) -> None:
    parts = MOE.host_parts
    assert parts.in_ram(parts.options(layers)) == tuple(sorted(layers))


@PROPERTY
@given(layer_sets)
def test_the_engine_finds_the_experts_of_these_layers_and_no_others(layers: frozenset[int]) -> None:
    overrides = overrides_of(MOE.host_parts.options(layers))
    for tensor in MOE.model.tensors:
        is_there = override_of(overrides, tensor.name) is not None
        layer = int(tensor.name.split(".")[1]) if tensor.name.startswith("blk.") else None
        assert is_there == (layer in layers and "_exps" in tensor.name), tensor.name


def test_the_engines_own_shorthand_is_used_where_it_says_it() -> None:
    parts = MOE.host_parts
    assert parts.options([]) == {}
    assert parts.options(range(N)) == {"cpu-moe": True}
    assert parts.options([0, 1, 2]) == {"n-cpu-moe": 3}
    assert parts.options([0, 2, 3]) == {"override-tensor": ("CPU:0-0", "CPU:2-3")}


def test_one_placement_is_one_candidate_however_it_is_written() -> None:
    ways: tuple[dict[str, Value], ...] = (
        {"n-cpu-moe": N},
        {"cpu-moe": True},
        {"override-tensor": ("CPU:0-3", "CPU:4-11")},
        {"n-cpu-moe": 99},
    )
    plain: dict[str, Value] = {
        "split-mode": "layer",
        "device": ("CUDA0", "CUDA1"),
        "gpu-layers": 999,
        "tensor-split": (1, 1),
    }
    assert len({canonical({**plain, **way}, MOE) for way in ways}) == 1


def test_experts_on_another_device_are_left_as_they_are_written() -> None:
    assert MOE.host_parts.in_ram({"override-tensor": ("CUDA1:0-3",)}) is None


def test_of_a_dense_model_the_first_layers_leave_whichever_card_they_are_on() -> None:
    parts = DENSE.host_parts
    assert parts.is_dense
    own = parts.own((5, 8), DENSE.n_units)
    assert parts.leaving(own, (0, 2)) == tuple(range(7))
    assert parts.leaving(own, (2, 0)) == (0, 1)
    assert parts.options(parts.leaving(own, (0, 2))) == {"n-cpu-ffn": 7}
    assert parts.in_ram({"n-cpu-ffn": 7}) == tuple(range(7))


def test_each_device_loses_its_own_layers() -> None:
    parts = MOE.host_parts
    own = parts.own((5, 8), MOE.n_units)
    assert parts.leaving(own, (2, 1)) == (0, 1, 5)


def test_a_model_without_such_tensors_has_none() -> None:
    assert HostParts.of(shaped(Shape(n_layers=0, n_mtp=0))).sizes == {}
