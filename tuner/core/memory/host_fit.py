"""The largest part of a model that devices can hold: the fewest layers whose experts lie in RAM.

A split by layers and the layers whose experts leave each device belong together: `--n-cpu-moe` takes the experts of
the first layers, which are the first device's, while a split by counts gives the last one layers that keep theirs.
Of a dense model it is the feed-forward parts that leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

from tuner.core.memory.overrides import overrides_of
from tuner.core.memory.placement import MIB
from tuner.core.memory.repair import GOOD_CHANCE
from tuner.core.options import OVERRIDES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tuner.core.assignment.splits import Splits
    from tuner.core.host_parts import HostParts
    from tuner.core.memory.need import Prediction
    from tuner.core.memory.predict import Predictor
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.options import Value

_EVERY_LAYER = 999
#: Shares that are tried for so many devices: whole units for two, coarser for more.
_STEPS = {3: 24}
_COARSE = 16


@dataclass(frozen=True, slots=True)
class HostFit:
    """A launch that fits, with as few layers' experts in RAM as there can be."""

    split: tuple[int, ...]
    """Units of each device."""
    host_layers: tuple[int, ...]
    """Layers whose experts lie in RAM."""
    changes: Mapping[str, Value | None]
    """Options to launch it; None takes one away."""
    prediction: Prediction


def fewest_in_ram(
    options: Mapping[str, Value],
    predictor: Predictor,
    splits: Splits,
    room_mib: Mapping[str, float],
    host_room_mib: float = inf,
) -> HostFit | None:
    """Find it by trying every split by layers; what else the options say stays.

    Args:
        options: What is to be launched; its own split and experts do not count.
        predictor: Knows the model on the rig.
        splits: The model's.
        room_mib: What may be used of each device; one that is not named has room for anything.
        host_room_mib: What may be used of the host's memory.

    Returns:
        None where nothing of the model can leave its layer, or it does not fit with all of it in RAM.
    """
    room = HostRoom.of(options, predictor, splits, room_mib, host_room_mib)
    if room is None:
        return None
    n = room.query.n_devices
    all_splits = splits.distinct("layer", n, splits.n_units if n <= 2 else _STEPS.get(n, _COARSE))
    found = [one for split in all_splits if (one := room.try_out(split, [0] * n)) is not None]
    if not found:
        starts = [(start, split) for split in all_splits for start in room.least(split)]
        for least, split in sorted(starts, key=lambda row: (sum(row[0]), row)):
            if found and sum(least) > min(len(one.host_layers) for one in found):
                break
            if inf not in least and (one := room.settle(split, [int(count) for count in least])):
                found.append(one)
    return min(found, key=room.preference, default=None)


@dataclass(frozen=True)  # without slots: what is worked out is kept
class HostRoom:
    """What a launch leaves of the devices' room, for any split by layers."""

    query: MemoryQuery
    """The launch without a split and with nothing in RAM."""
    predictor: Predictor
    splits: Splits
    room_mib: Mapping[str, float]
    host_room_mib: float = inf

    @classmethod
    def of(
        cls,
        options: Mapping[str, Value],
        predictor: Predictor,
        splits: Splits,
        room_mib: Mapping[str, float],
        host_room_mib: float = inf,
    ) -> HostRoom | None:
        """As `fewest_in_ram` is asked; None where nothing of the model can leave its layer."""
        layered = {**options, "split-mode": "layer", "gpu-layers": _EVERY_LAYER}
        query = replace(predictor.query(layered), overrides=(), split=())
        if not splits.host_parts.sizes or not query.devices:
            return None
        return cls(query, predictor, splits, room_mib, host_room_mib)

    def least(self, split: tuple[int, ...]) -> list[tuple[float, ...]]:
        """At least how many layers' experts have to leave each device; infinite where all are not enough.

        Several ways where one layer has to leave, whichever device's: that the pipeline ends with the first is
        counted as gained here.
        """
        own = self.own(split)
        few = [
            self._predict(split, [max(len(layers) - kept, 0) for layers in own]).devices.values()
            for kept in (0, 1, 2)
        ]
        counts: list[float] = []
        for place, needs in enumerate(zip(*few, strict=True)):
            bare = replace(needs[0], compute=min(need.compute for need in needs))
            room = self._room(place)
            scale = self.predictor.scale.weights / MIB
            kept_mib = [sum(self._parts.sizes[layer] for layer in own[place]) * scale]
            for layer in own[place]:
                kept_mib.append(kept_mib[-1] - self._parts.sizes[layer] * scale)
            fitting = (
                count
                for count, mib in enumerate(kept_mib)
                if replace(bare, weights=bare.weights + mib).chance_to_fit(room) >= self._sure
            )
            counts.append(next(fitting, inf))
        if any(counts):
            return [tuple(counts)]
        places = range(len(own))
        return [tuple(float(place == one) for place in places) for one in places if own[one]]

    def settle(self, split: tuple[int, ...], counts: list[int]) -> HostFit | None:
        """The first that fits from so many layers a device on: one more leaves each device that is exceeded."""
        own = self.own(split)
        while True:
            prediction = self._predict(split, counts)
            over = self._exceeded(prediction)
            if not over:
                return self.try_out(split, counts)
            if any(counts[place] >= len(own[place]) for place in over):
                return None
            for place in over:
                counts[place] += 1

    def try_out(self, split: tuple[int, ...], counts: Sequence[int]) -> HostFit | None:
        """A split with so many layers' experts in RAM; None where it does not fit."""
        prediction = self._predict(split, counts)
        if self._exceeded(prediction) or prediction.host_total_mib > self.host_room_mib:
            return None
        layers = self._left(split, counts)
        return HostFit(split, layers, self._changes(split, layers), prediction)

    def preference(self, one: HostFit) -> tuple[int, int, float]:
        """The less the better: layers in RAM, their bytes, and how tight the tightest device is."""
        spare = (self._room(place) - need.total for place, need in enumerate(one.prediction.devices.values()))
        return len(one.host_layers), sum(self._parts.sizes[layer] for layer in one.host_layers), -min(spare)

    @property
    def _sure(self) -> float:
        return float(GOOD_CHANCE ** (1 / self.query.n_devices))

    def _room(self, place: int) -> float:
        return self.room_mib.get(self.query.devices[place], inf)

    def _exceeded(self, prediction: Prediction) -> list[int]:
        return [
            place
            for place, need in enumerate(prediction.devices.values())
            if need.chance_to_fit(self._room(place)) < self._sure
        ]

    def own(self, split: tuple[int, ...]) -> list[list[int]]:
        """Each device's layers of which something can leave, in the order in which they do."""
        return self._parts.own(split, self.splits.n_units)

    def settled(self, split: tuple[int, ...]) -> Iterator[HostFit]:
        """What fits with this split and as little in RAM as can be; several ways where one layer is enough."""
        nothing = self.try_out(split, [0] * self.query.n_devices)
        if nothing is not None:
            yield nothing
            return
        for least in self.least(split):
            if inf not in least and (one := self.settle(split, [int(count) for count in least])):
                yield one

    @cached_property
    def _parts(self) -> HostParts:
        return self.splits.host_parts

    def _left(self, split: tuple[int, ...], counts: Sequence[int]) -> tuple[int, ...]:
        return self._parts.leaving(self.own(split), counts)

    def _predict(self, split: tuple[int, ...], counts: Sequence[int]) -> Prediction:
        overrides = overrides_of(self._parts.options(self._left(split, counts)))
        return self.predictor.predict_query(replace(self.query, split=split, overrides=overrides))

    def _changes(self, split: tuple[int, ...], layers: tuple[int, ...]) -> dict[str, Value | None]:
        changes: dict[str, Value | None] = {
            "split-mode": "layer" if len(split) > 1 else "none",
            "gpu-layers": _EVERY_LAYER,
            "tensor-split": split if len(split) > 1 else None,
            **dict.fromkeys(OVERRIDES),
        }
        return {**changes, **self._parts.options(layers)}
