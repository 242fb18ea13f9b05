"""What the host's memory holds of a model's layers, and the buffer that the engine reserves there.

Seen with build 11434 on models of a mixture of experts (qwen3moe, 8 to 48 layers): with `E` the embedding, `F` the
used experts' activations and `U` their outputs, in bytes a token, the host's buffer takes the attention mask and
`4 E`; `2 E + 3 F` and the outputs where it computes experts; four masks and `10 E` beside a pipeline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tuner.core.memory.activations import Activations
from tuner.core.memory.overrides import override_of
from tuner.core.memory.runtime import backend_of

if TYPE_CHECKING:
    from tuner.core.assignment.slices import Slicer
    from tuner.core.memory.overrides import Override
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.model import ModelFile

#: Of what goes from device to device, where they form a pipeline.
COPIES = 4

_LAYER = re.compile(r"blk\.(\d+)\.")
_EXPERTS = re.compile(r"_(ch|)exps\.")

#: Tokens of a batch from which on a card multiplies with weights of the host (GGML_OP_OFFLOAD_MIN_BATCH).
_LEAST_OFFLOADED = 32
#: Back ends that never do so: llama.cpp asks the devices in their order, and these say no.
_NEVER_OFFLOADS = frozenset({"RPC"})


@dataclass(frozen=True, slots=True)
class OnHost:
    """Weights in the host's memory that are multiplied with: all of them but the input embedding."""

    expert_layers: frozenset[int] = frozenset()
    """Layers whose experts lie there."""
    largest_bytes: int = 0
    """The largest matrix of them; 0 where there is none."""


def on_host(slicer: Slicer, overrides: tuple[Override, ...], n_host_layers: int) -> OnHost:
    """What of a model's layers lies on the host.

    Args:
        slicer: Of the model.
        overrides: Tensors that lie elsewhere than their layer.
        n_host_layers: The first layers, which `-ngl` leaves there whole.
    """
    return _on_host(slicer, overrides, n_host_layers)


@lru_cache(maxsize=256)
def _on_host(slicer: Slicer, overrides: tuple[Override, ...], n_host_layers: int) -> OnHost:
    layers: set[int] = set()
    largest = 0
    for tensor in slicer.model.tensors:
        match = _LAYER.match(tensor.name)
        if match is None:
            continue
        layer = int(match[1])
        override = override_of(overrides, tensor.name)
        if override.on_host if override is not None else layer < n_host_layers:
            largest = max(largest, tensor.size_bytes)
            if _EXPERTS.search(tensor.name):
                layers.add(layer)
    return OnHost(frozenset(layers), largest)


def offloader(query: MemoryQuery, tokens: int) -> int | None:
    """The device that multiplies whole batches with the host's weights, by its place; None where the host does.

    It is the first that can, whatever it holds: the experts of all layers pass through it, one matrix at a time.
    """
    if not query.op_offload or query.mode == "tensor" or tokens < _LEAST_OFFLOADED:
        return None
    able = (at for at, name in enumerate(query.devices) if backend_of(name) not in _NEVER_OFFLOADS)
    return next(able, None)


def host_compute_bytes(model: ModelFile, query: MemoryQuery, held: OnHost, *, pipelined: bool) -> float:
    """Bytes of the buffer that the engine reserves on the host; pinned where a card can have it so."""
    sizes = Activations.of(model)
    mask = query.mask_bytes
    if pipelined:
        return query.tokens * (COPIES * mask + 10 * sizes.embedding)
    if held.largest_bytes and offloader(query, query.tokens) is None:
        return query.tokens * (mask + 2 * sizes.embedding + sizes.inner)
    return query.tokens * (mask + 4 * sizes.embedding)
