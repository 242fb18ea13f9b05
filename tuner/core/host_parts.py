"""What of a model's layers can lie in the host's memory while the layers run on devices.

Of a mixture of experts that is the experts, of which a token reads a few; of a dense model the feed-forward part.
The caches and all else stay on the layer's device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from tuner.core.assignment.layers import layer_units
from tuner.core.experts import CPU, DENSE, EXPERTS, ExpertRun, expert_runs
from tuner.core.options import OVERRIDES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tuner.core.model import ModelFile
    from tuner.core.options import Value

_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class HostParts:
    """Those parts of one model."""

    sizes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Bytes of the part of each layer that has one, MTP layers not among them, in the order of the layers."""
    every_layer: tuple[int, ...] = ()
    """The layers that have one, MTP layers among them."""
    is_dense: bool = False
    """Whether it is the feed-forward part: then only the first layers can leave, whichever devices they are on."""

    @classmethod
    def of(cls, model: ModelFile) -> Self:
        """Read them off a model's tensors."""
        experts = _sizes(model, EXPERTS)
        sizes = experts or _sizes(model, DENSE)
        trunk = {layer: size for layer, size in sizes.items() if layer < model.n_trunk}
        return cls(MappingProxyType(trunk), tuple(sizes), is_dense=not experts)

    @property
    def what(self) -> str:
        """What they are called."""
        return "feed-forward parts" if self.is_dense else "experts"

    def own(self, split: Sequence[int], n_units: int) -> list[list[int]]:
        """Each device's layers that have a part, in the order in which these leave it: the largest first.

        Args:
            split: Shares of the devices in layer mode.
            n_units: Units that are dealt out.
        """
        edges = list(accumulate(layer_units(tuple(split), n_units), initial=0))
        layers = [[at for at in self.sizes if begin <= at < end] for begin, end in pairwise(edges)]
        if self.is_dense:
            return layers
        return [sorted(row, key=lambda layer: (-self.sizes[layer], layer)) for row in layers]

    def leaving(self, own: Sequence[Sequence[int]], counts: Sequence[int]) -> tuple[int, ...]:
        """The layers whose part is in RAM where at least so many have left each device.

        Args:
            own: Each device's layers, as `own` gives them.
            counts: One a device.
        """
        least = list(counts)
        if self.is_dense:
            last = max((place for place, count in enumerate(counts) if count), default=-1)
            least[: max(last, 0)] = [len(row) for row in own[: max(last, 0)]]
        return tuple(sorted(layer for row, count in zip(own, least, strict=True) for layer in row[:count]))

    def options(self, layers: Collection[int]) -> dict[str, Value]:
        """The options that put these layers' parts into RAM: the engine's shorthand where there is one.

        Args:
            layers: Of a dense model the first ones.
        """
        held = frozenset(layers)
        if not held:
            return {}
        first = max(held) + 1
        if self.is_dense:
            return {"n-cpu-ffn": first}
        if held == frozenset(self.every_layer):
            return {"cpu-moe": True}
        if held == {layer for layer in self.every_layer if layer < first}:
            return {"n-cpu-moe": first}
        return {"override-tensor": tuple(run.entry for run in expert_runs(held))}

    def in_ram(self, options: Mapping[str, Value]) -> tuple[int, ...] | None:
        """The layers whose part some options put into RAM; None where they say what `options` never says."""
        if self.is_dense:
            if any(options.get(name) for name in OVERRIDES if name != "n-cpu-ffn"):
                return None
            first = _count(options.get("n-cpu-ffn"))
            return tuple(layer for layer in self.every_layer if layer < first)
        if options.get("n-cpu-ffn"):
            return None
        if options.get("cpu-moe") is True:
            return self.every_layer
        entries = options.get("override-tensor") or ()
        runs = [ExpertRun.read(str(entry)) for entry in entries] if isinstance(entries, tuple) else [None]
        if any(run is None or run.place != CPU for run in runs):
            return None
        first = _count(options.get("n-cpu-moe"))
        held = {layer for run in runs if run is not None for layer in range(run.first, run.last + 1)}
        return tuple(layer for layer in self.every_layer if layer < first or layer in held)


def _sizes(model: ModelFile, pattern: str) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for tensor in model.tensors:
        match = _LAYER.match(tensor.name)
        if match is not None and re.search(pattern, tensor.name):
            sizes[int(match[1])] = sizes.get(int(match[1]), 0) + tensor.size_bytes
    return dict(sorted(sizes.items()))


def _count(value: Value | None) -> int:
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0
