"""What a command says of a model's experts, and what would be better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tuner.core.checkup.experts import experts_check
from tuner.core.memory.host import on_host
from tuner.core.memory.host_fit import fewest_in_ram
from tuner.core.memory.need import chance_to_fit
from tuner.core.memory.repair import GOOD_CHANCE, Repair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.assignment.splits import Splits
    from tuner.core.checkup.check import Check
    from tuner.core.memory.host_fit import HostFit
    from tuner.core.memory.need import Prediction
    from tuner.core.memory.predict import Predictor
    from tuner.core.options import Value


@dataclass(frozen=True)  # without slots: the search is made once, when it is asked for
class CheckedExperts:
    """Where a command puts the experts."""

    options: Mapping[str, Value]
    predictor: Predictor
    splits: Splits
    prediction: Prediction
    room_mib: Mapping[str, float]

    @cached_property
    def in_ram(self) -> frozenset[int]:
        """Layers on devices whose experts lie in RAM."""
        query = self.predictor.query(self.options)
        if not query.devices:
            return frozenset()
        n_left = self.prediction.owners.count(None)
        held = on_host(self.splits.slicer(query.n_devices), query.overrides, n_left).expert_layers
        return held.difference(range(n_left))

    @cached_property
    def better(self) -> HostFit | None:
        """With as few of them in RAM as there can be."""
        if self.splits.host_parts.is_dense:
            return None
        return fewest_in_ram(self.options, self.predictor, self.splits, self.room_mib)

    @property
    def fits(self) -> bool:
        """Whether the command is expected to fit as it is."""
        return chance_to_fit(self.prediction, self.room_mib) >= GOOD_CHANCE

    def check(self) -> Check | None:
        """What is said of it; None where nothing is put into RAM, or tensor mode gives each a part of all."""
        if not self.in_ram or not self.prediction.owners:
            return None
        sizes = self.splits.host_parts.sizes
        owners = {
            name: {layer for layer in sizes if self.prediction.owners[layer] == place}
            for place, name in enumerate(self.prediction.devices)
        }
        return experts_check(owners, self.in_ram, self.better, fits=self.fits)

    def repair(self) -> Repair | None:
        """The change to what is better; None where the command is as good."""
        better = self.better
        is_tensor = not self.prediction.owners  # as good as by layers, as far as memory goes
        if better is None or (self.fits and (is_tensor or len(better.host_layers) >= len(self.in_ram))):
            return None
        count = len(better.host_layers)
        why = "no experts in RAM" if not count else f"the experts of {count} layers in RAM"
        changes = {name: value for name, value in better.changes.items() if self._differs(name, value)}
        return Repair(changes, why)

    def _differs(self, name: str, value: Value | None) -> bool:
        said = self.options.get(name)
        if name == "gpu-layers" and isinstance(said, int):
            return said < self.splits.n_units
        return (said or None) != value
