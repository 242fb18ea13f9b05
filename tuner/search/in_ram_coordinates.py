"""Between what of the layers lies in RAM and what a sampler draws for it: a number of layers for each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tuner.search.dimensions import Dimension, Integer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.assignment.splits import Splits
    from tuner.core.options import Value
    from tuner.core.space import InRam

_BY_LAYERS = frozenset({"layer", "none"})


def in_ram_dimensions(
    splits: Splits, parameter: InRam, options: Mapping[str, Value]
) -> tuple[Dimension, ...]:
    """What is drawn for it: nothing in tensor mode, which gives each device a part of every layer."""
    if not splits.host_parts.sizes or _split(splits, options) is None:
        return ()
    devices = cast("tuple[str, ...]", options["device"])
    names = devices[:1] if options["split-mode"] == "none" else devices
    most = len(splits.host_parts.sizes)
    where = f"{parameter.name}/{'+'.join(names)}"
    return tuple(Integer(f"{where}/{place}", 0, most) for place in range(1, len(names) + 1))


def options_in_ram(splits: Splits, options: Mapping[str, Value], counts: Sequence[int]) -> dict[str, Value]:
    """The options for so many layers a device; a device has no more than its own."""
    split = _split(splits, options)
    if split is None:
        return {}
    parts = splits.host_parts
    return parts.options(parts.leaving(parts.own(split, splits.n_units), counts))


def place_in_ram(
    splits: Splits, options: Mapping[str, Value], wanted: Mapping[str, Value]
) -> tuple[int, ...]:
    """How many of each device's layers some options put into RAM.

    Args:
        splits: The model's.
        options: What is known of the candidate already, its devices and split among it.
        wanted: The options whose place is looked for.
    """
    split = _split(splits, options)
    if split is None:
        return ()
    held = frozenset(splits.host_parts.in_ram(wanted) or ())
    return tuple(len(held.intersection(row)) for row in splits.host_parts.own(split, splits.n_units))


def _split(splits: Splits, options: Mapping[str, Value]) -> tuple[int, ...] | None:
    """Units of each device; None where they are not dealt out whole."""
    if options["split-mode"] not in _BY_LAYERS or cast("int", options.get("gpu-layers", 0)) < splits.n_units:
        return None
    devices = cast("tuple[str, ...]", options["device"])
    if options["split-mode"] == "none" or len(devices) < 2:
        return (1,)
    split = options.get("tensor-split")
    return cast("tuple[int, ...]", split) if isinstance(split, tuple) and any(split) else (1,) * len(devices)
