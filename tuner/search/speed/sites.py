"""Where a model can lie, and how many bytes each device then reads for a token."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations, permutations
from typing import TYPE_CHECKING

import numpy as np

from tuner.core.assignment.layers import layer_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tuner.core.assignment.cut import Cut
    from tuner.core.assignment.splits import Splits
    from tuner.core.model import TensorInfo

_LAYER = re.compile(r"blk\.(\d+)\.")
_EXPERTS = re.compile(r"_exps\.")
_EXPERT_COUNT_AXIS = 2

#: More splits of one list of devices than this are thinned out.
_MOST_SPLITS = 1_000


@dataclass(frozen=True, slots=True)
class Site:
    """A split mode, devices in order, and a split."""

    mode: str
    devices: tuple[str, ...]
    split: tuple[int, ...]
    """Empty where one device has all, or where nothing says: then it counts as even."""


class Bytes:
    """Bytes that a token makes each device read, for any site of a model.

    Args:
        splits: The model's.
        names: The rig's devices; vectors are in their order.
    """

    def __init__(self, splits: Splits, names: tuple[str, ...]) -> None:
        self._splits = splits
        self._names = names
        self._known: dict[Site, NDArray[np.float64]] = {}
        self._shares: dict[Site, NDArray[np.float64]] = {}

    def of(self, site: Site) -> NDArray[np.float64]:
        """One number a device of the rig; 0 for those that are not used."""
        if site not in self._known:
            self._known[site] = self._work_out(site)
        return self._known[site]

    def cache_share(self, site: Site) -> NDArray[np.float64]:
        """The part of the KV cache that each device of the rig holds; 0 for those that are not used."""
        if site not in self._shares:
            self._shares[site] = self._share_of(site)
        return self._shares[site]

    @property
    def total(self) -> float:
        """Bytes that a token reads, all devices together."""
        return float(self._by_unit.sum())

    @property
    def n_layers(self) -> int:
        """Layers that every token passes."""
        return self._splits.model.n_trunk

    def _work_out(self, site: Site) -> NDArray[np.float64]:
        places = [self._names.index(name) for name in site.devices]
        found = np.zeros(len(self._names))
        if len(places) == 1:
            found[places[0]] = self._by_unit.sum()
        elif site.mode == "tensor":
            for cut, size in self._by_cut(len(places)):
                if not cut.elements:
                    found[places] += size
                    continue
                shares = np.array(cut.shares(site.split, len(places))) / cut.elements
                found[places] += size * shares
        else:
            for place, begin, end in self._runs(site, places):
                found[place] += self._by_unit[begin:end].sum()
        return found

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

    @cached_property
    def _active(self) -> tuple[tuple[TensorInfo, int, float], ...]:
        """Tensors that a token reads, their unit, and how many bytes of them."""
        model = self._splits.model
        rows = []
        for tensor in model.tensors:
            match = _LAYER.match(tensor.name)
            unit = int(match[1]) if match is not None else model.n_layers
            if model.n_trunk <= unit < model.n_layers:
                continue  # MTP layers only draft
            if match is None and not tensor.name.startswith("output"):
                continue  # read row by row, on the host
            size = float(tensor.size_bytes)
            if (
                _EXPERTS.search(tensor.name)
                and len(tensor.shape) > _EXPERT_COUNT_AXIS
                and model.n_expert_used
            ):
                size *= min(model.n_expert_used / tensor.shape[_EXPERT_COUNT_AXIS], 1.0)
            rows.append((tensor, unit, size))
        if not any(tensor.name == "output.weight" for tensor in model.tensors):
            rows += [
                (tensor, model.n_layers, float(tensor.size_bytes))
                for tensor in model.tensors
                if tensor.name == "token_embd.weight"
            ]
        return tuple(rows)

    @cached_property
    def _by_unit(self) -> NDArray[np.float64]:
        sizes = np.zeros(self._splits.n_units)
        for _, unit, size in self._active:
            sizes[min(unit, len(sizes) - 1)] += size
        return sizes

    def _by_cut(self, n_devices: int) -> list[tuple[Cut, float]]:
        if n_devices not in self._cuts:
            slicer = self._splits.slicer(n_devices)
            sums: dict[Cut, float] = {}
            for tensor, _, size in self._active:
                cut = slicer.of_tensor(tensor)
                sums[cut] = sums.get(cut, 0.0) + size
            self._cuts[n_devices] = list(sums.items())
        return self._cuts[n_devices]

    @cached_property
    def _cuts(self) -> dict[int, list[tuple[Cut, float]]]:
        return {}


def sites(
    splits: Splits,
    names: tuple[str, ...],
    *,
    modes: tuple[str, ...],
    tensor_steps: int,
    orders: bool,
    subsets: bool,
    only: tuple[int, ...] | None = None,
) -> Iterator[Site]:
    """All sites of a space, every physically different split once.

    Args:
        splits: The model's.
        names: The rig's devices.
        modes: Split modes of the space.
        tensor_steps: Parts of a split in tensor mode.
        orders: Whether other orders than the engine's are tried.
        subsets: Whether devices may be left out.
        only: The split of a space that varies none, empty where it has none at all; None where it varies it.
    """
    if "none" in modes or len(names) == 1:
        for name in names:
            yield Site("none", (name,), ())
    sizes = range(2, len(names) + 1) if subsets else (len(names),)
    arrange = permutations if orders else combinations
    for n in sizes:
        if n < 2:
            continue
        for mode in ("layer", "tensor"):
            if mode not in modes:
                continue
            # in tensor mode an order only moves which device comes first in rounding; of more than two devices
            # there are so many splits that an order adds nothing but which has the output
            lists = arrange(names, n) if mode == "layer" and n == 2 else combinations(names, n)
            steps = splits.n_units if mode == "layer" else tensor_steps
            for devices in lists:
                for split in (
                    _splits(splits, mode, n, steps) if only is None else _given(splits, mode, n, only)
                ):
                    yield Site(mode, tuple(devices), split)


def _splits(splits: Splits, mode: str, n: int, steps: int) -> tuple[tuple[int, ...], ...]:
    """All different splits, or evenly thinned out where there are too many."""
    while n > 2 and steps > n + 1 and _count(n, steps) > _MOST_SPLITS:
        steps = max(steps * 2 // 3, n + 1)
    return splits.distinct(mode, n, steps)


def _given(splits: Splits, mode: str, n: int, only: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The one split that there is; nothing where it is one of other devices."""
    if not any(only):
        return ((),)
    return (splits.simplest(mode, only),) if len(only) == n else ()


def _count(n: int, steps: int) -> int:
    """In how many ways so many steps are dealt out to n devices."""
    ways = 1
    for place in range(1, n):
        ways = ways * (steps - place) // place
    return ways
