"""How tensor mode cuts tensors and caches: hand-worked cuts, an engine's own figures, and what always holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

import pytest
from gguf.constants import GGML_QUANT_SIZES
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models import model
from tests.support.shape_gguf import Shape
from tests.support.strategies import PROPERTY, model_splits, splits
from tuner.core.assignment.cut import Cut, Segment
from tuner.core.assignment.slices import Slicer
from tuner.core.memory.placement import place
from tuner.core.memory.query import MemoryQuery
from tuner.core.model import ModelFile, StateShape, TensorInfo

if TYPE_CHECKING:
    from tuner.core.assignment.splits import Splits

segments = st.builds(Segment, st.integers(0, 2048), st.integers(1, 512), st.integers(1, 5))


@st.composite
def cuts(draw: st.DrawFn, most_segments: int = 3) -> tuple[Cut, tuple[int, ...]]:
    """A cut and a split; products small enough for 32-bit floats to be exact."""
    split = draw(splits(largest=20))
    found = draw(st.lists(segments, min_size=1, max_size=most_segments))
    return Cut(tuple(found), draw(st.integers(0, len(split) - 1))), split


def of_shape(shape: Shape) -> ModelFile:
    """The model of a shape, without a file."""
    tensors = []
    for name, dimensions, kind in shape.tensors():
        block, block_bytes = GGML_QUANT_SIZES[kind]
        tensors.append(TensorInfo(name, dimensions, kind.name, prod(dimensions) // block * block_bytes))
    n_layers = shape.n_layers + shape.n_mtp
    recurrent = tuple(layer < shape.n_layers and (layer + 1) % 4 != 0 for layer in range(n_layers))
    cached = [not flag and layer < shape.n_layers for layer, flag in enumerate(recurrent)]
    return replace(
        model(architecture=shape.architecture, n_mtp=shape.n_mtp),
        n_layers=n_layers,
        n_embd=shape.n_embd,
        n_head=shape.n_head,
        n_head_kv=tuple(shape.n_head_kv if flag else 0 for flag in cached),
        kv_heads=(shape.n_head_kv,) * n_layers,
        head_dim_k=shape.head_dim,
        head_dim_v=shape.head_dim,
        tensors=tuple(tensors),
        recurrent=recurrent,
        state=StateShape(
            conv_kernel=4,
            inner_size=shape.value_heads * shape.state_size,
            state_size=shape.state_size,
            group_count=shape.key_heads,
            time_step_rank=shape.value_heads,
        ),
    )


def three_heads() -> Slicer:
    """9 query heads and 3 KV heads of 64: 3 queries share a head, and blocks of 128 keep 2 heads together."""
    return Slicer(
        replace(model(architecture="llama", heads=(3,) * 4), n_head=9, head_dim_k=64, head_dim_v=64), 2
    )


@pytest.mark.parametrize(
    ("split", "even_layers", "odd_layers"),
    [
        # floor(192 * 2/3) = 128 elements for the first; where the second comes first: 64, rounded down to 0
        ((2, 1), (128, 64), (192, 0)),
        # floor(192 * 0.66) = 126, rounded down to 0; where the second comes first: 65, rounded down to 0
        ((66, 34), (0, 192), (192, 0)),
        ((1, 1), (0, 192), (192, 0)),
        ((1, 2), (0, 192), (64, 128)),
        ((1, 0), (128, 64), (192, 0)),
    ],
)
def test_three_kv_heads_by_hand(
    split: tuple[int, int], even_layers: tuple[int, int], odd_layers: tuple[int, int]
) -> None:
    slicer = three_heads()
    for layer in range(4):
        expected = odd_layers if layer % 2 else even_layers
        assert slicer.of_keys(layer).shares(split, 2) == expected
        assert slicer.of_values(layer).shares(split, 2) == expected


def test_two_to_one_is_two_and_a_half_heads_to_a_half() -> None:
    slicer = three_heads()
    shares = [slicer.of_keys(layer).shares((2, 1), 2) for layer in range(4)]
    assert [sum(column) / 64 / 4 for column in zip(*shares, strict=True)] == [2.5, 0.5]


def test_a_27b_hybrid_is_cut_as_an_engine_said() -> None:
    """`-sm tensor -ts 75,25 -c 8192`: the lines of build 11434 on two CUDA cards."""
    query = MemoryQuery(("CUDA0", "CUDA1"), "tensor", (75, 25), gpu_layers=999, n_ctx=8192)
    made = of_shape(Shape())
    placed = place(made, query, Slicer(made, 2), query.split)
    assert placed.weights[0] == pytest.approx(19_479.9, abs=0.05)
    assert placed.kv == (384.0, 128.0)
    assert placed.recurrent[0] == pytest.approx(112.22, abs=0.005)


def test_what_no_rule_names_is_whole_on_every_device() -> None:
    norm = TensorInfo("blk.0.attn_norm.weight", (5120,), "F32", 20_480)
    assert three_heads().of_tensor(norm) == Cut()


def test_the_output_matrix_is_cut_by_rows() -> None:
    output = TensorInfo("output.weight", (576, 1001), "Q8_0", 0)
    assert three_heads().of_tensor(output).shares((2, 1), 2) == (667, 334)


def test_feed_forward_is_cut_at_whole_blocks_of_the_matrix_behind_it() -> None:
    """A Q6_K block has 256 elements: floor(1536 * 2/3) = 1024, and floor(1536 * 0.6) = 921 becomes 768."""
    down = TensorInfo("blk.0.ffn_down.weight", (1536, 576), "Q6_K", 0)
    up = TensorInfo("blk.0.ffn_up.weight", (576, 1536), "Q4_0", 0)
    slicer = Slicer(replace(model(architecture="llama"), tensors=(down, up)), 2)
    for tensor in (down, up):
        assert slicer.of_tensor(tensor).shares((2, 1), 2) == (1024, 512)
        assert slicer.of_tensor(tensor).shares((3, 2), 2) == (768, 768)


# --- what always holds


@PROPERTY
@given(cuts())
def test_shares_are_all_there_is(made: tuple[Cut, tuple[int, ...]]) -> None:
    cut, split = made
    shares = cut.shares(split, len(split))
    assert len(shares) == len(split)
    assert sum(shares) == cut.elements
    assert min(shares) >= 0


@PROPERTY
@given(cuts(most_segments=1))
def test_boundaries_are_at_whole_blocks(made: tuple[Cut, tuple[int, ...]]) -> None:
    cut, split = made
    (segment,) = cut.segments
    shares = cut.shares(split, len(split))
    in_order = shares[cut.rotation :] + shares[: cut.rotation]
    for boundary in list(accumulate(in_order))[:-1]:
        assert boundary % (segment.granularity * segment.repeats) == 0


@PROPERTY
@given(cuts(), st.integers(1, 20))
def test_equal_ratios_give_equal_shares(made: tuple[Cut, tuple[int, ...]], factor: int) -> None:
    cut, split = made
    multiple = tuple(part * factor for part in split)
    assert cut.shares(multiple, len(split)) == cut.shares(split, len(split))


@PROPERTY
@given(cuts())
def test_rotation_permutes(made: tuple[Cut, tuple[int, ...]]) -> None:
    """Who comes first is cut as the first would be, whoever it is."""
    cut, split = made
    rotated = split[cut.rotation :] + split[: cut.rotation]
    shares = cut.shares(split, len(split))
    assert shares[cut.rotation :] + shares[: cut.rotation] == Cut(cut.segments).shares(rotated, len(split))


@PROPERTY
@given(cuts())
def test_no_ratio_is_an_even_one(made: tuple[Cut, tuple[int, ...]]) -> None:
    cut, split = made
    n_devices = len(split)
    even = cut.shares((), n_devices)
    assert even == cut.shares((0,) * n_devices, n_devices) == cut.shares((1,) * n_devices, n_devices)


@PROPERTY
@given(model_splits(most_layers=20), splits())
def test_every_cache_of_a_model_is_dealt_out_at_whole_heads(made: Splits, split: tuple[int, ...]) -> None:
    slicer = made.slicer(len(split))
    for layer in range(made.model.n_layers):
        shares = slicer.of_keys(layer).shares(split, len(split))
        assert sum(shares) == made.model.n_head_kv[layer] * made.model.head_dim_k
        assert all(share % made.model.head_dim_k == 0 for share in shares)
