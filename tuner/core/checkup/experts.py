"""Whose experts lie in RAM: what a command's flags for that mean for each device, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.checkup.check import Check, Level, Topic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from tuner.core.memory.host_fit import HostFit


def experts_check(
    owners: Mapping[str, AbstractSet[int]], in_ram: AbstractSet[int], better: HostFit | None, *, fits: bool
) -> Check | None:
    """Which device keeps how many layers' experts; None where all do, or the model has none.

    Args:
        owners: Layers with experts that each device holds, by the engine's name.
        in_ram: Layers whose experts lie in RAM.
        better: A launch with as few of them in RAM as there can be; None where there is none.
        fits: Whether the command is expected to fit as it is.
    """
    if not in_ram:
        return None
    kept = [
        f"{name} keeps {len(layers - in_ram)} of its {len(layers)}"
        for name, layers in owners.items()
        if layers
    ]
    text = f"those of {_layers(len(in_ram))} lie in RAM: {', '.join(kept)}"
    saved = 0 if better is None else len(in_ram) - len(better.host_layers)
    if better is None or (fits and saved <= 0):
        return Check(Topic.FIT, "experts", Level.OK, text)
    if not fits and len(kept) > 1:
        text += "; --n-cpu-moe counts from the first layer, and the split deals out layers whatever they hold"
    if saved > 0:
        text += f"; {_layers(len(better.host_layers))} in RAM would do"
    return Check(Topic.FIT, "experts", Level.WARNING, text, "take the line that works")


def _layers(count: int) -> str:
    return "no layer" if count == 0 else "1 layer" if count == 1 else f"{count} layers"
