"""Compute buffers: what the engine reserves for its graph, by a formula fitted to build 11434.

The reservation is linear in ubatch. A token of it takes, with `E` the embedding and `F` the feed-forward
length in 32-bit elements (or the channels of recurrent layers, where they are more), `4 E + 3 F`, and 2 bytes
a cell for the attention mask. Where devices form a pipeline there are four copies of what goes in: 8 bytes a
cell, and 11, 6 or 2 further `E` on the first, a middle and the last device. `llama-fit-params` and the engine's own
lines gave the same numbers for five models (dense and hybrid, 0.1 to 27 billion parameters), within 1 %; a last
device with one layer takes less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.memory.activations import Activations
from tuner.core.memory.expert_compute import copied_bytes, expert_layer_bytes
from tuner.core.memory.host import COPIES, offloader
from tuner.core.memory.placement import MIB, cache_bytes
from tuner.core.memory.query import bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.memory.host import OnHost
    from tuner.core.memory.placement import Placement
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.model import ModelFile

_FLOAT_BYTES = 4
_FIRST, _MIDDLE, _LAST = 11, 6, 2


def is_pipelined(model: ModelFile, query: MemoryQuery, placed: Placement) -> bool:
    """Whether the engine keeps several copies of what goes from device to device."""
    return query.pipelined and any(size > 0 for size in placed.weights) and query.gpu_layers > model.n_layers


def compute_mib(
    model: ModelFile, query: MemoryQuery, placed: Placement, held: OnHost, *, on_cuda: tuple[bool, ...]
) -> tuple[float, ...]:
    """MiB of the compute buffer of each device, in the query's order.

    Args:
        model: The model.
        query: What it is started with.
        placed: What lies where; a device that holds no part of the model has no buffer.
        held: What of its layers lies on the host.
        on_cuda: Whether a device is a CUDA card: there a quantised cache is unpacked in the buffer.
    """
    tokens = query.tokens
    widths = Activations.of(model)
    users = [place for place, weights in enumerate(placed.weights) if weights > 0]
    pipelined = is_pipelined(model, query, placed)
    copies = COPIES if pipelined else 1
    helper = offloader(query, tokens) if held.largest_bytes else None
    sizes = [0.0] * len(placed.weights)
    for place in users:
        if placed.owners and place not in placed.owners[: model.n_trunk or model.n_layers]:
            sizes[place] = _output_bytes(model, query, tokens, copies)
            continue
        attends = placed.kv[place] > 0  # else no attention, or its cache and all of it on the host
        per_token = float(_layer_bytes(model, query, placed, held, place))
        if attends:
            per_token += query.mask_bytes * copies
            per_token += 0 if query.flash_attention else _FLOAT_BYTES * query.cells * model.n_head
        if pipelined:
            is_last = place == users[-1] and len(users) > 1  # the only one copies as the first does
            per_token += widths.embedding * (_LAST if is_last else _FIRST if place == users[0] else _MIDDLE)
            if (widths.outputs or not is_last) and not any(model.recurrent):
                per_token += widths.queries
        sizes[place] = tokens * per_token
        if on_cuda[place] and attends:  # unpacking takes the place of what the feed-forward has given back
            layers = [layer for layer in range(model.n_trunk) if model.n_head_kv[layer]]
            unpacked = unpacked_bytes(model, layers, query.cells, query.type_k, query.type_v)
            sizes[place] += max(unpacked - 4 * widths.embedding * tokens, 0.0)
    if helper is not None:
        sizes[helper] = max(sizes[helper], copied_bytes(widths, held.largest_bytes, tokens, query.mask_bytes))
    return tuple(size / MIB for size in sizes)


def _layer_bytes(model: ModelFile, query: MemoryQuery, placed: Placement, held: OnHost, place: int) -> int:
    """Bytes a token of the widest layer of a device, but for its attention's mask."""
    widths = Activations.of(model)
    if placed.recurrent[place] > 0 and query.mode != "tensor":
        return 4 * widths.embedding + max(widths.inner, 3 * _FLOAT_BYTES * _channels(model))
    layers = [layer for layer in range(model.n_trunk) if not placed.owners or placed.owners[layer] == place]
    usual = 4 * widths.embedding + widths.inner
    if not widths.outputs or query.pipelined:
        return usual
    is_first = query.mode == "tensor" or not any(weights > 0 for weights in placed.weights[:place])
    return expert_layer_bytes(
        widths,
        held.expert_layers,
        layers,
        last=model.n_trunk - 1,
        is_first=is_first,
        helps=offloader(query, query.tokens) == place,
        is_helped=offloader(query, query.tokens) is not None,
    )


def _channels(model: ModelFile) -> int:
    """What a recurrent layer's convolution runs over: queries, keys and values side by side."""
    return model.state.inner_size + 2 * model.state.group_count * model.state.state_size


def _output_bytes(model: ModelFile, query: MemoryQuery, tokens: int, copies: int) -> float:
    """For a device with the output and no layer: a server asks for one row a slot and drafted token.

    Most architectures drop the other rows within the last layer, those with recurrent layers after it.
    """
    rows = max(query.parallel, 1) * (1 + query.draft_depth)
    received = tokens if any(model.recurrent) else rows
    return _FLOAT_BYTES * (rows * model.n_vocab + received * (copies + 1) * model.n_embd)


def unpacked_bytes(model: ModelFile, layers: Sequence[int], cells: int, type_k: str, type_v: str) -> float:
    """A quantised cache of one layer as f16: CUDA's attention over many tokens reads it so.

    Args:
        model: The model.
        layers: Those of one context that have a cache; the largest of them counts.
        cells: Tokens of it.
        type_k: Of the keys.
        type_v: Of the values.
    """
    quantised = (bits(type_k) < bits("f16"), bits(type_v) < bits("f16"))
    if not any(quantised) or not layers:
        return 0.0
    keys, values = max(cache_bytes(model, layer, cells, "f16", "f16") for layer in layers)
    return keys * quantised[0] + values * quantised[1]
