"""Which splits are one and the same, and the simplest ratio that gives each."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tuner.core.assignment.layers import layer_units, reduced
from tuner.core.assignment.slices import Slicer
from tuner.core.host_parts import HostParts

if TYPE_CHECKING:
    from tuner.core.assignment.cut import Cut
    from tuner.core.model import ModelFile

#: Ratios with a larger sum are not looked at: no model has so many blocks that they would tell splits apart.
_LARGEST_SUM = 400


class Splits:
    """The splits of a model: what a ratio is in layer mode and in tensor mode.

    In layer mode a split is the units that each device gets. In tensor mode it is the heads and blocks; the
    output matrix, which is cut by single rows, does not tell splits apart.
    """

    def __init__(self, model: ModelFile) -> None:
        self.model = model
        self._slicers: dict[int, Slicer] = {}
        self._cuts: dict[int, tuple[Cut, ...]] = {}
        self._simplest: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._distinct: dict[tuple[str, int, int], tuple[tuple[int, ...], ...]] = {}

    @cached_property
    def n_units(self) -> int:
        """Layers and one for the output: what layer mode deals out."""
        return self.model.n_units

    @cached_property
    def host_parts(self) -> HostParts:
        """What of the layers can lie in the host's memory."""
        return HostParts.of(self.model)

    def slicer(self, n_devices: int) -> Slicer:
        """How tensors are cut between so many devices."""
        return self._slicers.setdefault(n_devices, Slicer(self.model, n_devices))

    def simplest(self, mode: str, split: tuple[int, ...]) -> tuple[int, ...]:
        """The split that stands for all that are the same as this one.

        In layer mode: the units of each device. In tensor mode, over two devices: the ratio of the smallest
        numbers that cuts heads and blocks alike. Else the same ratio in the smallest whole numbers; `same`
        tells such splits apart.
        """
        if mode == "layer":
            return layer_units(split, self.n_units)
        if mode == "tensor" and len(split) == 2:
            if split not in self._simplest:
                self._simplest[split] = self._search(split)
            return self._simplest[split]
        return reduced(split)

    def same(self, mode: str, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        """Whether two splits are physically one."""
        if one == other or len(one) != len(other):
            return one == other
        if mode == "tensor":
            return self.slices(one) == self.slices(other)
        return self.simplest(mode, one) == self.simplest(mode, other)

    def slices(self, split: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """What tells tensor splits apart: the elements of each kind of tensor that each device gets."""
        return tuple(cut.shares(split, len(split)) for cut in self._kinds(len(split)))

    def distinct(self, mode: str, n_devices: int, steps: int) -> tuple[tuple[int, ...], ...]:
        """All different splits in steps of `1/steps` in which each device has a part, simplest ratios.

        Ordered by what the first devices get, the least first.
        """
        key = (mode, n_devices, steps)
        if key not in self._distinct:
            found: dict[tuple[object, ...], tuple[int, ...]] = {}
            for split in _compositions(n_devices, max(steps, n_devices)):
                simplest = self.simplest(mode, split)
                found.setdefault(self.slices(split) if mode == "tensor" else simplest, simplest)
            self._distinct[key] = tuple(found.values())
        return self._distinct[key]

    def _kinds(self, n_devices: int) -> tuple[Cut, ...]:
        """Every way in which a tensor or a cache of the model is cut, each once."""
        if n_devices not in self._cuts:
            slicer, model = self.slicer(n_devices), self.model
            cuts = [slicer.of_tensor(tensor) for tensor in model.tensors if tensor.name.startswith("blk.")]
            for layer in range(model.n_layers):
                if model.is_recurrent(layer):
                    cuts += slicer.of_state(layer)
                elif model.heads_at(layer)[1]:
                    cuts += [slicer.of_keys(layer), slicer.of_values(layer)]
            different = dict.fromkeys(cut for cut in cuts if cut.elements)
            self._cuts[n_devices] = tuple(sorted(different, key=_fineness, reverse=True))
        return self._cuts[n_devices]

    def _search(self, split: tuple[int, ...]) -> tuple[int, ...]:
        """Go through ratios by their sum; one that is the same split has parts next to this one's."""
        kinds, wanted = self._kinds(2), self.slices(split)
        own, whole = reduced(split), sum(split)

        def same(ratio: tuple[int, ...]) -> bool:
            if [part > 0 for part in ratio] != [part > 0 for part in own]:
                return False
            return all(cut.shares(ratio, 2) == shares for cut, shares in zip(kinds, wanted, strict=True))

        for total in range(1, min(sum(own), _LARGEST_SUM)):
            nearest = split[0] * total // whole
            ratios = [
                (part, total - part) for part in range(max(nearest - 1, 0), min(nearest + 2, total) + 1)
            ]
            if (found := next((ratio for ratio in ratios if same(ratio)), None)) is not None:
                return found
        return own


def _fineness(cut: Cut) -> float:
    """The more places a cut can have, the sooner it tells two splits apart."""
    return max(segment.elements / segment.granularity for segment in cut.segments)


def _compositions(n_parts: int, total: int) -> list[tuple[int, ...]]:
    """All ways to write `total` as so many whole numbers above 0, the smallest first part first."""
    if n_parts == 1:
        return [(total,)]
    return [
        (first, *rest)
        for first in range(1, total - n_parts + 2)
        for rest in _compositions(n_parts - 1, total - first)
    ]
