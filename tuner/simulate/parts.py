"""What a model consists of, for those who ask what lies where and what is read from where.

Layer mode deals out units; tensor mode cuts every tensor. Tensors that are cut alike are added up once, so that
a split is a few multiplications.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from tuner.core.assignment.layers import layer_owners
from tuner.core.assignment.slices import Slicer
from tuner.simulate.model import MIB, attends

if TYPE_CHECKING:
    from tuner.core.assignment.cut import Cut
    from tuner.core.model import ModelFile
    from tuner.simulate.played_rig import PlayedModel
    from tuner.simulate.setup import Setup

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a tensor-mode step after which the devices wait for each other."""

    sizes: tuple[tuple[Cut, int], ...]
    """Bytes of weights, by how they are cut."""
    caches: tuple[Cut, ...]
    """How the K and the V cache that it reads are cut; empty where it reads none."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The model's parts.

    Args:
        file: The model as its header shows it.
        model: The model as the rig's file gives it.
    """

    file: ModelFile
    model: PlayedModel

    @cached_property
    def unit_bytes(self) -> tuple[float, ...]:
        """Bytes of each unit of layer mode: layers, MTP layers, the output."""
        model = self.model
        layers = [model.layers_mib / model.layers * MIB] * model.layers
        drafting = [model.mtp_mib / max(model.mtp_layers, 1) * MIB] * model.mtp_layers
        return (*layers, *drafting, model.output_mib * MIB)

    @property
    def expert_bytes(self) -> float:
        """Bytes of the experts of one layer; 0 in a dense model."""
        model = self.model
        return model.layers_mib / model.layers * MIB * (1 - model.attn_part) if model.experts else 0.0

    @cached_property
    def attends(self) -> tuple[bool, ...]:
        """Whether a layer has a KV cache; MTP layers have one of their own context."""
        return tuple(attends(self.model, layer) for layer in range(self.model.layers))

    @cached_property
    def state_bytes(self) -> float:
        """Bytes of one recurrent layer's state."""
        layers = self.model.layers - self.model.full_attn_layers
        return self.model.rs_mib * MIB / layers if layers else 0.0

    @lru_cache(maxsize=4096)  # noqa: B019 - one object a rig, as long-lived as its cache
    def owners(self, split: tuple[int, ...], gpu_layers: int) -> tuple[int | None, ...]:
        """Layer mode: the device of each unit, None for the host."""
        return layer_owners(split, len(self.unit_bytes), gpu_layers)

    def owners_of(self, setup: Setup) -> tuple[int | None, ...]:
        """As `owners`."""
        return self.owners(setup.split, setup.gpu_layers)

    @lru_cache(maxsize=16)  # noqa: B019 - as above
    def weights(self, n_devices: int) -> tuple[dict[Cut, float], dict[Cut, float]]:
        """Tensor mode: bytes of the model and of its MTP layers, by how they are cut."""
        slicer = self._slicer(n_devices)
        trunk: dict[Cut, float] = defaultdict(float)
        drafting: dict[Cut, float] = defaultdict(float)
        for tensor in self.file.tensors:
            if tensor.name == "token_embd.weight":
                continue
            match = _LAYER.fullmatch(tensor.name)
            into = drafting if match and int(match[1]) >= self.model.layers else trunk
            into[slicer.of_tensor(tensor)] += tensor.size_bytes
        return dict(trunk), dict(drafting)

    @lru_cache(maxsize=16)  # noqa: B019 - as above
    def caches(self, n_devices: int) -> tuple[Counter[Cut], Counter[Cut], Counter[Cut]]:
        """Tensor mode: how many K caches, V caches and (half) states are cut how."""
        slicer = self._slicer(n_devices)
        layers = range(self.model.layers)
        keys = Counter(slicer.of_keys(layer) for layer in layers if self.attends[layer])
        values = Counter(slicer.of_values(layer) for layer in layers if self.attends[layer])
        states = Counter(slicer.of_state(layer)[1] for layer in layers if not self.attends[layer])
        return keys, values, states

    @lru_cache(maxsize=16)  # noqa: B019 - as above
    def blocks(self, n_devices: int) -> tuple[tuple[Block, int], ...]:
        """Tensor mode: parts of a step and how often each is there; what comes before a reduction is one."""
        slicer = self._slicer(n_devices)
        sizes: dict[tuple[int, bool], dict[Cut, int]] = defaultdict(lambda: defaultdict(int))
        for tensor in self.file.tensors:
            match = _LAYER.fullmatch(tensor.name)
            layer = self.model.layers if match is None else int(match[1])
            if tensor.name == "token_embd.weight" or (match and layer >= self.model.layers):
                continue
            feeds = match is not None and match[2].startswith("ffn_")
            sizes[layer, feeds][slicer.of_tensor(tensor)] += tensor.size_bytes
        found: Counter[Block] = Counter()
        for (layer, feeds), rows in sizes.items():
            reads = layer < self.model.layers and not feeds and self.attends[layer]
            caches = (slicer.of_keys(layer), slicer.of_values(layer)) if reads else ()
            rounded = tuple((cut, size // 64 * 64) for cut, size in rows.items())  # alike but for rounding
            found[Block(rounded, caches)] += 1
        return tuple(found.items())

    @lru_cache(maxsize=16)  # noqa: B019 - as above
    def drafting(self, n_devices: int) -> dict[Cut, float]:
        """Tensor mode: bytes that a drafted token reads, of MTP layers and the output, by how they are cut."""
        found = dict(self.weights(n_devices)[1])
        cut = self._slicer(n_devices).of_tensor(
            next(t for t in self.file.tensors if t.name == "output.weight")
        )
        found[cut] = found.get(cut, 0.0) + self.model.output_mib * MIB
        return found

    @lru_cache(maxsize=16)  # noqa: B019 - as above
    def mtp_caches(self, n_devices: int) -> tuple[tuple[Cut, Cut], ...]:
        """Tensor mode: how the K and V caches of MTP layers are cut."""
        slicer = self._slicer(n_devices)
        layers = range(self.model.layers, self.model.layers + self.model.mtp_layers)
        return tuple((slicer.of_keys(layer), slicer.of_values(layer)) for layer in layers)

    @lru_cache(maxsize=16)  # noqa: B019 - as above
    def _slicer(self, n_devices: int) -> Slicer:
        return Slicer(self.file, n_devices)


@lru_cache(maxsize=65_536)
def fractions(cut: Cut, split: tuple[int, ...]) -> tuple[float, ...]:
    """Which part of what is cut each device holds; all of it where it is not cut."""
    n = len(split)
    if not cut.elements:
        return (1.0,) * n
    return tuple(share / cut.elements for share in cut.shares(split, n))
