"""Where weights, KV cache and recurrent state lie: MiB a device, exact to what the engine rounds up.

Layer mode gives whole units to devices, tensor mode a slice of every tensor; the input embedding stays on the
host, and so does what `-ngl` leaves out and what a pattern keeps there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tuner.core.assignment.cut import Cut
from tuner.core.assignment.layers import layer_owners
from tuner.core.memory.overrides import override_of
from tuner.core.memory.query import bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tuner.core.assignment.slices import Slicer
    from tuner.core.memory.overrides import Override
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.model import ModelFile

MIB = 2**20

#: Tensors that are read row by row, and never offloaded (LLM_TENSOR_LAYER_INPUT of llama-arch.cpp).
_INPUT = frozenset(
    f"{name}.weight" for name in ("token_embd", "position_embd", "token_types", "per_layer_token_embd")
)
_LAYER = re.compile(r"blk\.(\d+)\.")
_HOST = -1
#: Below it come the devices that a pattern names: -2 for the first, -3 for the second.
_FIRST_NAMED = -2
_WHOLE = Cut()


@dataclass(frozen=True, slots=True)
class Placement:
    """What lies where, in MiB: one number a device of the query, in its order, and the host's."""

    weights: tuple[float, ...]
    kv: tuple[float, ...]
    recurrent: tuple[float, ...]
    host_weights: float
    host_cache: float
    owners: tuple[int | None, ...]
    """Layer mode: the device of each unit, None for the host. Empty in tensor mode."""


def place(model: ModelFile, query: MemoryQuery, slicer: Slicer, split: tuple[int, ...]) -> Placement:
    """Where everything of the model itself lies; what drafts is not in it, but for its weights.

    Args:
        model: The model.
        query: What it is started with.
        slicer: How its tensors are cut between the query's devices.
        split: The query's split, or what the engine puts in its place.
    """
    tensor_mode = query.mode == "tensor" and query.n_devices > 0
    owners = () if tensor_mode else layer_owners(split, model.n_units, query.gpu_layers)
    dealer = _Dealer(query.n_devices, owners, split, tensor_mode=tensor_mode)
    weights = dealer.empty()
    for unit, cut, size in _weights(
        slicer, "draft-mtp" in query.spec, query.overrides, query.devices, tensor_mode
    ):
        dealer.add(weights, unit, cut, size)
    kv, state = dealer.empty(), dealer.empty()
    for layer in range(model.n_trunk):
        if model.is_recurrent(layer):
            of_layer = [
                (cut, float(elements * query.state_rows * 4))
                for cut, elements in zip(
                    slicer.of_state(layer), model.state.elements(model.n_embd), strict=True
                )
            ]
            into = state
        else:
            of_layer = list(_kv_bytes(model, query, slicer, layer))
            into = kv
        for cut, size in of_layer:
            dealer.add(into, layer if query.kv_offload else _HOST, cut, size)
    return Placement(
        weights=dealer.of_devices(weights),
        kv=dealer.of_devices(kv),
        recurrent=dealer.of_devices(state),
        host_weights=weights[_HOST] / MIB,
        host_cache=(kv[_HOST] + state[_HOST]) / MIB,
        owners=owners,
    )


def cache_bytes(model: ModelFile, layer: int, cells: int, type_k: str, type_v: str) -> tuple[float, float]:
    """Bytes of a layer's K and V cache for so many cells."""
    heads = model.heads_at(layer)[1]
    return (
        cells * heads * model.head_dim_k * bits(type_k) / 8,
        cells * heads * model.head_dim_v * bits(type_v) / 8,
    )


@dataclass(frozen=True, slots=True)
class _Dealer:
    """Adds bytes to the devices that hold them; the last place is the host's."""

    n_devices: int
    owners: tuple[int | None, ...]
    split: tuple[int, ...]
    tensor_mode: bool

    def empty(self) -> list[float]:
        return [0.0] * (self.n_devices + 1)

    def of_devices(self, sizes: Sequence[float]) -> tuple[float, ...]:
        return tuple(size / MIB for size in sizes[:-1])

    def add(self, sizes: list[float], unit: int, cut: Cut, size_bytes: float) -> None:
        if unit == _HOST:
            sizes[_HOST] += size_bytes
        elif unit <= _FIRST_NAMED:
            sizes[_FIRST_NAMED - unit] += size_bytes
        elif not self.tensor_mode:
            owner = self.owners[unit]
            sizes[_HOST if owner is None else owner] += size_bytes
        elif not cut.elements:
            for device in range(self.n_devices):
                sizes[device] += size_bytes
        else:
            for device, share in enumerate(cut.shares(self.split, self.n_devices)):
                sizes[device] += size_bytes * share / cut.elements


@lru_cache(maxsize=64)
def _weights(
    slicer: Slicer,
    drafts_mtp: bool,  # noqa: FBT001 - keys of a cache
    overrides: tuple[Override, ...],
    devices: tuple[str, ...],
    by_cut: bool,  # noqa: FBT001 - keys of a cache
) -> tuple[tuple[int, Cut, float], ...]:
    """Bytes of weights: the unit that they belong to, how they are cut, and how many; few rows, many tensors.

    Args:
        slicer: Cuts the model's tensors.
        drafts_mtp: Whether MTP layers are loaded.
        overrides: Patterns of tensors that lie elsewhere; one that names no device of these changes nothing.
        devices: The engine's names.
        by_cut: Whether units do not matter, as in tensor mode.
    """
    model = slicer.model
    with_mtp = drafts_mtp or model.n_trunk == 0
    rows: dict[tuple[int, Cut], float] = {}

    def add(unit: int, cut: Cut, size: float) -> None:
        key = (unit if unit < 0 or not by_cut else 0, cut if by_cut else _WHOLE)
        rows[key] = rows.get(key, 0.0) + size

    for tensor in model.tensors:
        match = _LAYER.match(tensor.name)
        layer = model.n_layers if match is None else min(int(match[1]), model.n_layers)
        if not with_mtp and model.n_trunk <= layer < model.n_layers:
            continue
        override = override_of(overrides, tensor.name)
        unit = _HOST if tensor.name in _INPUT else layer
        if override is not None and override.on_host:
            unit = _HOST
        elif override is not None and override.buffer in devices:
            unit = _FIRST_NAMED - devices.index(override.buffer)
        add(unit, slicer.of_tensor(tensor), tensor.size_bytes)
    if not any(tensor.name == "output.weight" for tensor in model.tensors):
        embedding = sum(one.size_bytes for one in model.tensors if one.name == "token_embd.weight")
        add(model.n_layers, _WHOLE, embedding)  # the output is a second copy of the input embedding
    return tuple((unit, cut, size) for (unit, cut), size in rows.items())


def _kv_bytes(
    model: ModelFile, query: MemoryQuery, slicer: Slicer, layer: int
) -> Iterator[tuple[Cut, float]]:
    if not model.n_head_kv[layer]:
        return
    windowed = model.is_windowed(layer)
    cells = (query.window_cells(model.n_swa) if windowed else query.cells) * query.streams
    keys, values = cache_bytes(model, layer, cells, query.type_k, query.type_v)
    yield slicer.of_keys(layer), keys
    yield slicer.of_values(layer), values
