"""Tensor mode: every tensor cut into one slice a device, at whole heads and whole blocks.

The rule is llama.cpp's (`llama_meta_device_get_split_state`, llama-model.cpp:379-883, build 11434). A tensor
has segments along one axis (fused tensors have several). Device j's slice of a segment of `n` elements ends at
`floor(n * cumulative share)`, rounded down to the segment's granularity; the last device takes the rest. In
which order the devices come is rotated by layer, so that rounding does not always hit the same one. What no
rule names is mirrored: each device holds all of it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tuner.core.assignment.cut import Cut, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.model import ModelFile, TensorInfo

#: Elements that one quantised block holds; a type that is not listed has no blocks.
_BLOCKS = {
    **dict.fromkeys(("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "IQ4_NL", "MXFP4"), 32),
    **dict.fromkeys(
        "Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_XS TQ1_0 TQ2_0".split(),
        256,
    ),
    "NVFP4": 64,
}

#: Architectures whose queries carry a gate of the same size, and whose values are grouped by key heads.
_GATED = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp", "clef"})
#: Architectures whose recurrent layers run whole on every device.
_MIRRORED_STATES = frozenset({"lfm2", "lfm2moe"})
_ALL_MIRRORED = frozenset({"hrm-text"})

_CUT_BY_ROWS = frozenset(
    ("ffn_up.weight", "ffn_gate.weight", "ffn_gate_up.weight", "ffn_up.bias", "ffn_gate.bias")
)

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_PERFORMANCE_BLOCK = 128


@dataclass(
    frozen=True, eq=False
)  # one is equal to itself only: comparing models takes longer than cutting them
class Slicer:
    """Knows how each tensor and cache of a model is cut between so many devices."""

    model: ModelFile
    n_devices: int

    def of_tensor(self, tensor: TensorInfo) -> Cut:
        """How a tensor of the file is cut."""
        if self.model.architecture in _ALL_MIRRORED:
            return Cut()
        match = _LAYER.fullmatch(tensor.name)
        if match is None:
            if tensor.name in {"output.weight", "output.bias"}:
                rows = tensor.shape[-1]
                return Cut((Segment(rows, 1),), self.model.n_trunk % self.n_devices)
            return Cut()
        layer, name = int(match[1]), match[2]
        if layer >= self.model.n_layers:
            return Cut()
        segments = (
            self._of_recurrent(layer, name, tensor)
            if self.model.is_recurrent(layer)
            else self._of_attention(layer, name, tensor)
        ) or self._of_feed_forward(layer, name, tensor)
        return Cut(segments, self._rotations[layer]) if segments else Cut()

    def of_keys(self, layer: int) -> Cut:
        """How a layer's K cache is cut: elements are those of one token."""
        heads = self.model.heads_at(layer)[1]
        return self._by_heads(layer, heads * self.model.head_dim_k, self._kv_granularity(layer)[0])

    def of_values(self, layer: int) -> Cut:
        """How a layer's V cache is cut: elements are those of one token."""
        heads = self.model.heads_at(layer)[1]
        return self._by_heads(layer, heads * self.model.head_dim_v, self._kv_granularity(layer)[1])

    def of_state(self, layer: int) -> tuple[Cut, Cut]:
        """How a recurrent layer's convolution state and recurrent state are cut."""
        model, state = self.model, self.model.state
        if model.architecture in _MIRRORED_STATES or not state.state_size:
            return Cut(), Cut()
        step = self._state_granularity(layer)
        rotation = self._rotations[layer]
        keys = state.state_size * state.group_count
        looks_back = max(state.conv_kernel - 1, 0)
        convolution = self._fused(step * looks_back, keys * looks_back, state.inner_size * looks_back)
        if self._groups_by_keys:
            one = state.group_count * state.state_size * state.state_size
            recurrent = (Segment(one, step * state.state_size, self._head_ratio),)
        else:
            recurrent = (Segment(state.state_size * state.inner_size, step * state.state_size),)
        return Cut(convolution, rotation), Cut(recurrent, rotation)

    @cached_property
    def _rotations(self) -> tuple[int, ...]:
        """By layer: how many layers of the same kind come before it, modulo the devices."""
        model = self.model
        kinds = [(model.is_recurrent(layer), model.is_windowed(layer)) for layer in range(model.n_layers)]
        return tuple(kinds[:layer].count(kind) % self.n_devices for layer, kind in enumerate(kinds))

    @cached_property
    def _blocks(self) -> dict[str, int]:
        return {tensor.name: _BLOCKS.get(tensor.type_name, 1) for tensor in self.model.tensors}

    def _block(self, layer: int, *names: str) -> int:
        """Elements a block of the tensor that decides where others are cut."""
        found = (self._blocks.get(f"blk.{layer}.{name}") for name in names)
        return next((block for block in found if block is not None), 1)

    @property
    def _gated(self) -> bool:
        return self.model.architecture in _GATED

    @property
    def _groups_by_keys(self) -> bool:
        """Whether values are cut in as many runs as there are value heads for one key head."""
        return self._gated and self.model.architecture != "qwen3next"

    @property
    def _head_ratio(self) -> int:
        state = self.model.state
        return state.time_step_rank // max(state.group_count, 1)

    def _fused(self, granularity: int, keys: int, values: int) -> tuple[Segment, ...]:
        """Queries, keys and values of a recurrent layer side by side."""
        if self._groups_by_keys:
            return (Segment(keys, granularity, 2 + self._head_ratio),)
        if self._gated:
            return Segment(keys, granularity, 2), Segment(values, granularity)
        return (Segment(2 * keys + values, granularity),)

    def _state_granularity(self, layer: int) -> int:
        block = self._block(layer, "ssm_out.weight")
        return math.lcm(block, _PERFORMANCE_BLOCK, max(self.model.state.state_size, 1))

    def _of_recurrent(self, layer: int, name: str, tensor: TensorInfo) -> tuple[Segment, ...]:
        state = self.model.state
        step = self._state_granularity(layer)
        per_head = max(step // max(state.state_size, 1), 1)
        keys = state.state_size * state.group_count
        if name in {"attn_qkv.weight", "ssm_conv1d.weight"} and self._gated:
            return self._fused(step, keys, tensor.shape[-1] - 2 * keys)
        if name in {"attn_gate.weight", "ssm_out.weight"}:
            length = tensor.shape[0] if name == "ssm_out.weight" else tensor.shape[-1]
            return (
                (Segment(keys, step, self._head_ratio),) if self._groups_by_keys else (Segment(length, step),)
            )
        if name in {"ssm_dt.bias", "ssm_a", "ssm_alpha.weight", "ssm_beta.weight"}:
            if self._groups_by_keys:
                return (Segment(state.group_count, per_head, self._head_ratio),)
            return (Segment(tensor.shape[-1], per_head),)
        if name == "ssm_ba.weight":
            return (Segment(tensor.shape[-1], 2 * per_head),)
        return ()

    def _query_granularity(self, layer: int, per_head: int = 1) -> int:
        """Elements of queries that stay together: those of one KV head, in whole blocks of a good size."""
        queries = self._group(layer) * self.model.head_dim_k
        block = self._block(layer, "attn_output.weight", "ssm_out.weight")
        while block < _PERFORMANCE_BLOCK and block * self.n_devices < queries:
            block *= 2
        return math.lcm(max(per_head * queries, 1), block)

    def _group(self, layer: int) -> int:
        """Query heads that share one KV head."""
        heads, kv_heads = self.model.heads_at(layer)
        return max(heads // max(kv_heads, 1), 1)

    def _kv_granularity(self, layer: int) -> tuple[int, int]:
        of_keys = max(self._query_granularity(layer) // self._group(layer), 1)
        of_values = of_keys // max(self.model.head_dim_k, 1) * self.model.head_dim_v
        return of_keys, max(of_values, 1)

    def _by_heads(self, layer: int, elements: int, granularity: int) -> Cut:
        if self.model.architecture in _ALL_MIRRORED:
            return Cut()
        return Cut((Segment(elements, granularity),), self._rotations[layer])

    def _of_attention(self, layer: int, name: str, tensor: TensorInfo) -> tuple[Segment, ...]:
        model = self.model
        whole = self._query_granularity(layer)
        queries = self._query_granularity(layer, per_head=2) if self._gated else whole
        keys, values = self._kv_granularity(layer)
        heads_together = whole // max(model.head_dim_k, 1)
        along = tensor.shape[-1]
        if name in {"attn_qkv.weight", "attn_qkv.bias"}:
            kv_heads = model.heads_at(layer)[1]
            n_keys, n_values = kv_heads * model.head_dim_k, kv_heads * model.head_dim_v
            return (
                Segment(along - n_keys - n_values, queries),
                Segment(n_keys, keys),
                Segment(n_values, values),
            )
        if name == "attn_output.weight":
            return (Segment(tensor.shape[0], max(heads_together * model.head_dim_v, 1)),)
        one_a_head = along == model.heads_at(layer)[0]
        granularity = {
            "attn_q": queries,
            "attn_k": keys,
            "attn_v": values,
            "attn_gate": heads_together if one_a_head else whole,
            "attn_sinks": heads_together,
        }.get(name.rpartition(".")[0])
        if name in {"attn_q_norm.weight", "attn_k_norm.weight"} and len(tensor.shape) > 1 and along > 1:
            granularity = 1
        return () if granularity is None else (Segment(along, max(granularity, 1)),)

    def _of_feed_forward(self, layer: int, name: str, tensor: TensorInfo) -> tuple[Segment, ...]:
        step = math.lcm(self._block(layer, "ffn_down.weight", "ffn_down_exps.weight"), _PERFORMANCE_BLOCK)
        plain = name.replace("_exps", "")
        if plain == "ffn_down.weight":
            return (Segment(tensor.shape[0], step),)
        if plain not in _CUT_BY_ROWS:
            return ()
        # the axis of rows: the second of a matrix, the only one of a bias, whose experts are the second
        rows = tensor.shape[0] if plain.endswith("bias") else tensor.shape[1]
        inner = self._inner(layer, name)
        if inner and rows == 2 * inner:  # fused with another of the same size
            return (Segment(inner, step, 2),)
        return (Segment(rows, step),)

    def _inner(self, layer: int, name: str) -> int:
        """Rows that the layer's `ffn_down` takes."""
        down = f"blk.{layer}.ffn_down_exps.weight" if "_exps" in name else f"blk.{layer}.ffn_down.weight"
        shape = self._shapes.get(down)
        return shape[0] if shape else 0

    @cached_property
    def _shapes(self) -> dict[str, Sequence[int]]:
        return {tensor.name: tensor.shape for tensor in self.model.tensors}
