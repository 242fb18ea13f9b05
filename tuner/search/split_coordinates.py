"""Between a tensor split and what a sampler draws for it.

A split over two devices is its place among all that differ, the one that gives the first device least first.
Over more devices it is n-1 sorted cuts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tuner.core.assignment.layers import reduced
from tuner.core.canonical import has_ratio
from tuner.search.cuts import cuts_of, split_of
from tuner.search.dimensions import Dimension, Integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.assignment.splits import Splits
    from tuner.core.options import Value
    from tuner.core.space import Split


#: Modes that deal out whole layers, or rows in their steps; others, those of forks too, cut within layers.
_BY_LAYERS = frozenset({"layer", "row"})


def split_dimensions(splits: Splits, parameter: Split, options: Mapping[str, Value]) -> tuple[Dimension, ...]:
    """What is drawn for a split; nothing where there is nothing to divide."""
    devices = cast("tuple[str, ...]", options["device"])
    mode = options["split-mode"]
    if len(devices) < 2 or not has_ratio(mode):
        return ()
    where = f"tensor-split/{mode}/{'+'.join(devices)}"
    if len(devices) == 2:
        return (Integer(f"{where}/1", 0, len(_ladder(splits, parameter, options)) - 1),)
    high = _steps(splits, parameter, options) - len(devices)
    return tuple(Integer(f"{where}/{cut}", 0, high) for cut in range(1, len(devices)))


def split_at(
    splits: Splits, parameter: Split, options: Mapping[str, Value], cuts: list[int]
) -> tuple[int, ...]:
    """The split that has been drawn."""
    if len(cuts) == 1:
        return _ladder(splits, parameter, options)[cuts[0]]
    return split_of(cuts, _steps(splits, parameter, options))


def place_of_split(
    splits: Splits,
    parameter: Split,
    options: Mapping[str, Value],
    dimensions: tuple[Dimension, ...],
    target: Value | None,
) -> list[int]:
    """What would have to be drawn for a split, or for the nearest that there is."""
    if len(dimensions) == 1:
        return [_rung(_ladder(splits, parameter, options), target)]
    return _cuts(target, dimensions, rounded_up=options["split-mode"] in _BY_LAYERS)


def _ladder(splits: Splits, parameter: Split, options: Mapping[str, Value]) -> tuple[tuple[int, ...], ...]:
    """All splits over two devices that differ, the one that gives the first device least first."""
    steps = _steps(splits, parameter, options)
    if cast("int", options.get("gpu-layers", 0)) < splits.n_units:  # nobody knows which are the same
        return tuple(dict.fromkeys(reduced((part, steps - part)) for part in range(1, steps)))
    return splits.distinct(str(options["split-mode"]), 2, steps)


def _rung(ladder: tuple[tuple[int, ...], ...], target: Value | None) -> int:
    """The place of the split that gives the first device what is nearest to a wanted split."""
    wanted = cast("tuple[int, ...]", target) if isinstance(target, tuple) and len(target) == 2 else (1, 1)
    share = wanted[0] / (sum(wanted) or 1)
    return min(range(len(ladder)), key=lambda rung: abs(ladder[rung][0] / sum(ladder[rung]) - share))


def _steps(splits: Splits, parameter: Split, options: Mapping[str, Value]) -> int:
    """Parts of a split; never fewer than there are devices."""
    devices = len(cast("tuple[str, ...]", options["device"]))
    if options["split-mode"] not in _BY_LAYERS:
        return max(parameter.tensor_steps, devices)
    return max(min(parameter.layer_steps or splits.n_units, splits.n_units), devices)


def _cuts(target: Value | None, dimensions: tuple[Dimension, ...], *, rounded_up: bool) -> list[int]:
    if not dimensions:
        return []
    n = len(dimensions) + 1
    wanted = cast("tuple[int, ...]", target) if isinstance(target, tuple) and len(target) == n else (1,) * n
    return cuts_of(wanted, cast("Integer", dimensions[0]).high, rounded_up=rounded_up)
