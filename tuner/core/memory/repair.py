"""The smallest change to a command that makes it fit, where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, cast

from tuner.core.memory.need import chance_to_fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tuner.core.assignment.splits import Splits
    from tuner.core.memory.predict import Predictor
    from tuner.core.options import Value

#: A command that fits with this probability is called one that works.
GOOD_CHANCE = 0.95
_LEAST_CONTEXT = 4_096
_TENSOR_STEPS = 40
_MOST_ORDERED = 4
_EVERY_LAYER = 999


@dataclass(frozen=True, slots=True)
class Repair:
    """What to change."""

    changes: Mapping[str, Value | None]
    """Options by canonical name; None takes one away."""
    why: str
    """What the change is, in a few words."""


def repair(
    options: Mapping[str, Value], predictor: Predictor, splits: Splits, room_mib: Mapping[str, float]
) -> Repair | None:
    """The first change that makes a command fit, from the smallest to those that cost something.

    Args:
        options: The command's, all that matters for memory.
        predictor: Knows the model on the rig.
        splits: The model's.
        room_mib: What may be used of each device.

    Returns:
        None where nothing of this kind makes it fit.
    """
    for changes, why in _weaker(options):
        base = _applied(options, changes)
        for split, words in _arranged(base, predictor, splits):
            if _fits(_applied(base, split), predictor, room_mib):
                found = {**changes, **split}
                new = {
                    name: value for name, value in found.items() if not _is_set(options, name, value, splits)
                }
                return Repair(new, ", ".join(filter(None, (words, why))))
    return None


def other_order(
    options: Mapping[str, Value], predictor: Predictor, room_mib: Mapping[str, float]
) -> tuple[str, ...] | None:
    """Another order of the same devices in which the same command fits; None where there is none."""
    devices = predictor.query(options).devices
    if not 1 < len(devices) <= _MOST_ORDERED:
        return None
    for order in permutations(devices):
        if order != devices and _fits(_applied(options, {"device": order}), predictor, room_mib):
            return order
    return None


def _is_set(options: Mapping[str, Value], name: str, value: Value | None, splits: Splits) -> bool:
    if name == "gpu-layers":
        return cast("int", options.get(name, 0)) >= splits.n_units
    return options.get(name) == value


def _weaker(options: Mapping[str, Value]) -> Iterator[tuple[dict[str, Value | None], str]]:
    """Changes to what is not the split, each with all before it: what costs least comes first."""
    changes: dict[str, Value | None] = {"gpu-layers": _EVERY_LAYER}
    words: list[str] = []
    yield dict(changes), ""
    if str(options.get("cache-type-k")) == "f16" and str(options.get("cache-type-v")) == "f16":
        changes |= {"cache-type-k": "q8_0", "cache-type-v": "q8_0"}
        words.append("a q8_0 cache")
        yield dict(changes), " and ".join(words)
    if options.get("spec-type", "none") != "none":
        yield {**changes, "spec-type": "none"}, " and ".join([*words, "no drafts"])
    context = cast("int", options.get("ctx-size") or 0)
    while context // 2 >= _LEAST_CONTEXT:
        context //= 2
        yield {**changes, "ctx-size": context}, " and ".join([*words, f"{context:,} tokens of context"])


def _arranged(
    options: Mapping[str, Value], predictor: Predictor, splits: Splits
) -> Iterator[tuple[dict[str, Value | None], str]]:
    """Splits to try: the one that is there, then all others of that mode, the nearest first."""
    yield {}, ""
    query = predictor.query(options)
    if query.n_devices != 2 or query.mode not in {"layer", "tensor"}:
        return
    steps = splits.n_units if query.mode == "layer" else _TENSOR_STEPS
    asked = predictor.split_of(query)
    wanted = asked[0] / sum(asked)
    for split in sorted(
        splits.distinct(query.mode, 2, steps), key=lambda one: abs(one[0] / sum(one) - wanted)
    ):
        yield {"tensor-split": split}, f"-ts {split[0]},{split[1]}"


def _applied(options: Mapping[str, Value], changes: Mapping[str, Value | None]) -> dict[str, Value]:
    merged = {**options, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _fits(options: Mapping[str, Value], predictor: Predictor, room_mib: Mapping[str, float]) -> bool:
    return chance_to_fit(predictor.predict(options), room_mib) >= GOOD_CHANCE
