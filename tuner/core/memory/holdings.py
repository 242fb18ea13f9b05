"""What each device holds, in words: whole layers and the output, or its part of heads and blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.memory.host import on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.assignment.slices import Slicer
    from tuner.core.memory.need import Prediction
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.model import ModelFile

HOST = "host"


def holdings(
    model: ModelFile, query: MemoryQuery, prediction: Prediction, slicer: Slicer, split: tuple[int, ...]
) -> dict[str, str]:
    """A few words for each device, and for the host where layers stay there.

    Args:
        model: The model.
        query: What it is started with.
        prediction: What was predicted for that.
        slicer: How tensors are cut between the query's devices.
        split: The split that the engine uses.
    """
    if query.mode == "tensor" and query.devices:
        return {
            name: _slices(model, slicer, split, place, prediction) for place, name in enumerate(query.devices)
        }
    held = on_host(slicer, query.overrides, prediction.owners.count(None)).expert_layers
    found = {
        name: _units(
            model, query, [unit for unit, owner in enumerate(prediction.owners) if owner == place], held
        )
        for place, name in enumerate(query.devices)
    }
    left = [unit for unit, owner in enumerate(prediction.owners) if owner is None]
    words = [_units(model, query, left)] if left else []
    moved = len(held.difference(left))
    words += [f"experts of {moved} {'layer' if moved == 1 else 'layers'}"] if moved else []
    return {**found, HOST: ", ".join(words)} if words else found


def kv_heads(model: ModelFile, slicer: Slicer, split: tuple[int, ...]) -> tuple[float, ...]:
    """KV heads that each device has of an attention layer, on average over the layers."""
    layers = [layer for layer in range(model.n_trunk) if model.n_head_kv[layer]]
    sums = [0.0] * len(split)
    for layer in layers:
        cut = slicer.of_keys(layer)
        for place, share in enumerate(cut.shares(split, len(split))):
            sums[place] += share / model.head_dim_k
    return tuple(one / max(len(layers), 1) for one in sums)


def _units(
    model: ModelFile, query: MemoryQuery, units: Sequence[int], moved: frozenset[int] = frozenset()
) -> str:
    if not units:
        return "nothing"
    layers = [unit for unit in units if unit < model.n_trunk]
    parts = []
    if layers:
        first, last = layers[0], layers[-1]
        parts.append(f"layer {first}" if first == last else f"layers {first} to {last} ({len(layers)})")
        gone = len(moved.intersection(layers))
        if gone:
            parts.append("without experts" if gone == len(layers) else f"{gone} of them without experts")
    if "draft-mtp" in query.spec and any(model.n_trunk <= unit < model.n_layers for unit in units):
        parts.append("MTP")
    if model.n_layers in units:
        parts.append("output")
    return ", ".join(parts)


def _slices(
    model: ModelFile, slicer: Slicer, split: tuple[int, ...], place: int, prediction: Prediction
) -> str:
    weights = [need.weights for need in prediction.devices.values()]
    heads = kv_heads(model, slicer, split)[place]
    most = max(model.n_head_kv, default=0)
    share = weights[place] / (sum(weights) or 1)
    return f"{share:.1%} of the weights, {heads:g} of {most} KV heads"
