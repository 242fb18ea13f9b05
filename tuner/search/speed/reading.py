"""How many bytes each device and the host read for a token, and each device for one that is drafted."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from tuner.core.assignment.layers import layer_units
from tuner.core.experts import DENSE, EXPERTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tuner.core.assignment.cut import Cut
    from tuner.core.assignment.splits import Splits
    from tuner.core.model import ModelFile, TensorInfo
    from tuner.search.speed.sites import Site

_LAYER = re.compile(r"blk\.(\d+)\.")
_EXPERTS = re.compile(r"_exps\.")
_EXPERT_COUNT_AXIS = 2


class Reading:
    """What a rig's devices read, for any site of a model; vectors have one number a device of the rig.

    Args:
        splits: The model's.
        names: The rig's devices; vectors are in their order.
    """

    def __init__(self, splits: Splits, names: tuple[str, ...]) -> None:
        self._splits = splits
        self._names = names
        tensors = _read_tensors(splits.model)
        trunk, layers = splits.model.n_trunk, splits.model.n_layers
        self._token = _Read(splits, [row for row in tensors if not trunk <= row[1] < layers])
        self._draft = _Read(splits, [row for row in tensors if row[1] >= trunk])
        self._of_token: dict[Site, NDArray[np.float64]] = {}
        self._of_draft: dict[Site, NDArray[np.float64]] = {}
        self._shares: dict[Site, NDArray[np.float64]] = {}
        dense = splits.host_parts.is_dense
        movable = [
            row for row in tensors if row[1] < trunk and re.search(DENSE if dense else EXPERTS, row[0].name)
        ]
        self._movable = _Read(splits, movable).by_unit

    def of_token(self, site: Site) -> NDArray[np.float64]:
        """Bytes that a token of the model makes each device read; 0 for those that are not used."""
        if site not in self._of_token:
            self._of_token[site] = self._work_out(site, self._token) - self._left(site)
        return self._of_token[site]

    def of_host(self, site: Site) -> float:
        """Bytes that a token makes the host read."""
        return float(self._movable[list(site.in_ram)].sum()) if site.in_ram else 0.0

    def of_draft(self, site: Site) -> NDArray[np.float64]:
        """The same for a token that its own MTP layers draft: these and the output, wherever they lie."""
        if site not in self._of_draft:
            self._of_draft[site] = self._work_out(site, self._draft)
        return self._of_draft[site]

    def cache_share(self, site: Site) -> NDArray[np.float64]:
        """The part of the KV cache that each device holds; 0 for those that are not used."""
        if site not in self._shares:
            self._shares[site] = self._share_of(site)
        return self._shares[site]

    @property
    def total(self) -> float:
        """Bytes that a token reads, all devices together."""
        return float(self._token.by_unit.sum())

    @property
    def n_layers(self) -> int:
        """Layers that every token passes."""
        return self._splits.model.n_trunk

    def _work_out(self, site: Site, read: _Read) -> NDArray[np.float64]:
        places = [self._names.index(name) for name in site.devices]
        found = np.zeros(len(self._names))
        if len(places) == 1:
            found[places[0]] = read.by_unit.sum()
        elif site.mode == "tensor":
            for cut, size in read.by_cut(len(places)):
                if not cut.elements:
                    found[places] += size
                    continue
                shares = np.array(cut.shares(site.split, len(places))) / cut.elements
                found[places] += size * shares
        else:
            for place, begin, end in self._runs(site, places):
                found[place] += read.by_unit[begin:end].sum()
        return found

    def _left(self, site: Site) -> NDArray[np.float64]:
        """What a token does not read of each device, as it lies in host memory."""
        gone = np.zeros(len(self._names))
        if not site.in_ram:
            return gone
        held = np.zeros_like(self._movable)
        held[list(site.in_ram)] = self._movable[list(site.in_ram)]
        for place, begin, end in self._runs(site, [self._names.index(name) for name in site.devices]):
            gone[place] += held[begin:end].sum()
        return gone

    def _share_of(self, site: Site) -> NDArray[np.float64]:
        model = self._splits.model
        places = [self._names.index(name) for name in site.devices]
        found = np.zeros(len(self._names))
        heads = np.array([*model.n_head_kv[: model.n_trunk], *[0] * (self._splits.n_units - model.n_trunk)])
        whole = max(float(heads.sum()), 1.0)
        if len(places) == 1:
            found[places[0]] = 1.0
        elif site.mode == "tensor":
            slicer = self._splits.slicer(len(places))
            for layer in np.flatnonzero(heads):
                cut = slicer.of_keys(int(layer))
                shares = np.array(cut.shares(site.split, len(places))) / max(cut.elements, 1)
                found[places] += shares * heads[layer] / whole
        else:
            for place, begin, end in self._runs(site, places):
                found[place] += heads[begin:end].sum() / whole
        return found

    def _runs(self, site: Site, places: list[int]) -> list[tuple[int, int, int]]:
        """Each device's place with its first unit and the one after its last, in layer mode."""
        counts = layer_units(site.split or (1,) * len(places), self._splits.n_units)
        edges = list(accumulate(counts, initial=0))
        return list(zip(places, edges, edges[1:], strict=False))


class _Read:
    """Tensors that are read together, added up by where layer mode and tensor mode put them.

    Args:
        splits: The model's.
        tensors: Each with its unit and how many bytes of it are read.
    """

    def __init__(self, splits: Splits, tensors: Sequence[tuple[TensorInfo, int, float]]) -> None:
        self._splits = splits
        self._tensors = tensors
        self._cuts: dict[int, list[tuple[Cut, float]]] = {}

    @cached_property
    def by_unit(self) -> NDArray[np.float64]:
        """Bytes of each unit of layer mode."""
        sizes = np.zeros(self._splits.n_units)
        for _, unit, size in self._tensors:
            sizes[min(unit, len(sizes) - 1)] += size
        return sizes

    def by_cut(self, n_devices: int) -> list[tuple[Cut, float]]:
        """Bytes by how tensor mode cuts them."""
        if n_devices not in self._cuts:
            slicer = self._splits.slicer(n_devices)
            sums: dict[Cut, float] = {}
            for tensor, _, size in self._tensors:
                cut = slicer.of_tensor(tensor)
                sums[cut] = sums.get(cut, 0.0) + size
            self._cuts[n_devices] = list(sums.items())
        return self._cuts[n_devices]


def _read_tensors(model: ModelFile) -> list[tuple[TensorInfo, int, float]]:
    """Tensors that a token reads, their unit, and how many bytes of them; the output is the unit after the layers."""
    rows = []
    for tensor in model.tensors:
        match = _LAYER.match(tensor.name)
        if match is None and not tensor.name.startswith("output"):
            continue  # read row by row, on the host
        size = float(tensor.size_bytes)
        if _EXPERTS.search(tensor.name) and len(tensor.shape) > _EXPERT_COUNT_AXIS and model.n_expert_used:
            size *= min(model.n_expert_used / tensor.shape[_EXPERT_COUNT_AXIS], 1.0)
        rows.append((tensor, model.n_layers if match is None else int(match[1]), size))
    if not any(tensor.name == "output.weight" for tensor in model.tensors):
        rows += [
            (tensor, model.n_layers, float(tensor.size_bytes))
            for tensor in model.tensors
            if tensor.name == "token_embd.weight"
        ]
    return rows
