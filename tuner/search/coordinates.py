"""Between candidates and the numbers that a sampler draws.

A space bound to a rig is walked parameter by parameter; each open parameter has one or more `Dimension`s.
`draw` makes a candidate from what a sampler says for each dimension; `coordinates` finds the values that a
given candidate has, or the nearest ones. For a candidate that was drawn, `draw` undoes `coordinates`.

A split over two devices is drawn as its place among all that differ, the one that gives the first device least
first. Over more devices it is drawn as n-1 sorted cuts. So every draw is a valid split in which each device has
at least one part: the sampler is never told "no".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations
from typing import TYPE_CHECKING, cast

from tuner.core.canonical import canonical
from tuner.core.options import BASE_OPTIONS, Value
from tuner.core.space import (
    Choice,
    Devices,
    FloatRange,
    InRam,
    IntRange,
    Parameter,
    SearchSpace,
    Split,
    holds,
)
from tuner.search.dimensions import Categorical, Coordinate, Dimension, Integer, Number
from tuner.search.in_ram_coordinates import in_ram_dimensions, options_in_ram, place_in_ram
from tuner.search.split_coordinates import place_of_split, split_at, split_dimensions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.core.assignment.splits import Splits
    from tuner.core.candidate import Candidate


@dataclass(frozen=True, slots=True)
class BoundSpace:
    """A search space on a rig: everything that a draw needs to know."""

    space: SearchSpace
    devices: tuple[str, ...]
    """The engine's names of the devices that may be used, in its order."""
    splits: Splits
    """Which splits of the model there are, and which are the same."""
    imposed: Mapping[str, Value]
    """Options that every candidate of the study has, such as `ctx-size`."""
    least_slot_context: int = 0
    """Tokens that a slot has to hold, whatever the slots share among them."""


def draw(bound: BoundSpace, suggest: Callable[[Dimension], Coordinate]) -> Candidate:
    """Make a candidate from what a sampler says for each dimension that turns out to be open."""

    def choose(parameter: Parameter, options: Mapping[str, Value]) -> Value | None:
        dimensions = _dimensions(bound, parameter, options)
        values = [suggest(dimension) for dimension in dimensions]
        return _decode(bound, parameter, options, values) if values else None

    return _walk(bound, choose)


def coordinates(bound: BoundSpace, candidate: Candidate) -> list[tuple[Dimension, Coordinate]]:
    """The values of a candidate, dimension by dimension; where it has none in the space, the nearest."""
    found: list[tuple[Dimension, Coordinate]] = []
    target = candidate.options

    def choose(parameter: Parameter, options: Mapping[str, Value]) -> Value | None:
        dimensions = _dimensions(bound, parameter, options)
        values = _encode(bound, parameter, options, dimensions, target)
        found.extend(zip(dimensions, values, strict=True))
        return _decode(bound, parameter, options, values) if values else None

    _walk(bound, choose)
    return found


def complete(bound: BoundSpace, options: Mapping[str, Value]) -> Candidate:
    """A candidate with these options, and defaults for what they leave open."""

    def choose(parameter: Parameter, known: Mapping[str, Value]) -> Value | None:
        if isinstance(parameter, InRam):
            return None  # what lies in RAM stands in the options, however it is written
        if parameter.name in options:
            return options[parameter.name]
        match parameter:
            case Choice() | IntRange() | FloatRange():
                return parameter.default
            case Devices():
                return _device_lists(bound, parameter, known)[0]
            case Split():
                devices = cast("tuple[str, ...]", known["device"])
                return (1,) * len(devices) if len(devices) > 1 else None

    return _walk(bound, choose, options)


def _walk(
    bound: BoundSpace,
    choose: Callable[[Parameter, Mapping[str, Value]], Value | None],
    given: Mapping[str, Value] | None = None,
) -> Candidate:
    options: dict[str, Value] = {
        **BASE_OPTIONS,
        "device": bound.devices,
        **bound.space.fixed,
        **(given or {}),
        **bound.imposed,
    }
    for parameter in bound.space.parameters:
        if parameter.name in bound.imposed or not holds(parameter.when, options):
            continue
        if parameter.name not in (given or {}) and (equal := _equal_by_rule(bound, parameter, options)):
            options[parameter.name] = options[equal]
            continue
        value = choose(parameter, options)
        if isinstance(parameter, InRam):
            if value is not None:
                options.update(options_in_ram(bound.splits, options, cast("tuple[int, ...]", value)))
        elif value is None:
            options.pop(parameter.name, None)
        else:
            options[parameter.name] = value
    if options["split-mode"] == "none" and len(cast("tuple[str, ...]", options["device"])) > 1:
        options["device"] = cast("tuple[str, ...]", options["device"])[:1]
    return canonical(options, bound.splits)


def _equal_by_rule(bound: BoundSpace, parameter: Parameter, options: Mapping[str, Value]) -> str | None:
    """An option that is set and that a rule makes this one equal to: nothing is left to draw then."""
    for rule in bound.space.rules:
        if rule.op != "==" or not rule.right_is_option or rule.when:
            continue
        other = {rule.left: str(rule.right), str(rule.right): rule.left}.get(parameter.name)
        first = [one.name for one in bound.space.parameters if one.name in {parameter.name, other}]
        if other is not None and first[0] == other and _takes(parameter, options.get(other)):
            return other
    return None


def _takes(parameter: Parameter, value: Value | None) -> bool:
    return isinstance(parameter, Choice) and value in parameter.choices


def _dimensions(
    bound: BoundSpace, parameter: Parameter, options: Mapping[str, Value]
) -> tuple[Dimension, ...]:
    match parameter:
        case Choice(name=name, choices=choices):
            return (Categorical(name, tuple(_plain(choice) for choice in choices)),)
        case IntRange(name=name, low=low, high=high, step=step):
            return (Integer(name, low, high, step),)
        case FloatRange(name=name, low=low, high=high, step=step):
            return (Number(name, low, high, step),)
        case Devices():
            lists = _device_lists(bound, parameter, options)
            kind = "one" if len(lists[0]) == 1 else "several"
            return (Categorical(f"device/{kind}", tuple(",".join(names) for names in lists)),)
        case Split():
            return split_dimensions(bound.splits, parameter, options)
        case InRam():
            return in_ram_dimensions(bound.splits, parameter, options)


def _decode(
    bound: BoundSpace, parameter: Parameter, options: Mapping[str, Value], values: list[Coordinate]
) -> Value:
    match parameter:
        case Choice(choices=choices):
            return next(choice for choice in choices if _plain(choice) == values[0])
        case Devices():
            return tuple(str(values[0]).split(","))
        case Split():
            return split_at(bound.splits, parameter, options, [int(value) for value in values])
        case InRam():
            return tuple(int(value) for value in values)
        case IntRange():
            return values[0]
        case FloatRange():
            return round(float(values[0]), 9)  # 0.15000000000000002 is 0.15, as a start would write it


def _encode(
    bound: BoundSpace,
    parameter: Parameter,
    options: Mapping[str, Value],
    dimensions: tuple[Dimension, ...],
    wanted_options: Mapping[str, Value],
) -> list[Coordinate]:
    target = wanted_options.get(parameter.name)
    if isinstance(parameter, Split):
        return list(place_of_split(bound.splits, parameter, options, dimensions, target))
    if isinstance(parameter, InRam):
        counts: list[Coordinate] = [*place_in_ram(bound.splits, options, wanted_options)]
        return counts[: len(dimensions)]
    (dimension,) = dimensions
    match dimension:
        case Categorical(choices=choices):
            return [_nearest_choice(choices, target)]
        case Integer(low=low, high=high, step=step):
            wanted = target if isinstance(target, int) else low
            return [low + round((min(max(wanted, low), high) - low) / step) * step]
        case Number(low=low, high=high, step=step):
            number = float(target) if isinstance(target, (int, float)) else low
            return [min(low + round((min(max(number, low), high) - low) / step) * step, high)]


def _nearest_choice(choices: tuple[Coordinate, ...], target: Value | None) -> Coordinate:
    wanted = None if target is None else _plain(target)
    if wanted in choices:
        return wanted
    numbers = [choice for choice in choices if isinstance(choice, (int, float))]
    if isinstance(wanted, (int, float)) and numbers:
        return min(numbers, key=lambda choice: abs(choice - wanted))
    return choices[0]


def _plain(value: Value) -> Coordinate:
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def _device_lists(
    bound: BoundSpace, parameter: Devices, options: Mapping[str, Value]
) -> tuple[tuple[str, ...], ...]:
    """Lists that a split mode can have, the engine's own order of all devices first."""
    names = bound.devices
    if options["split-mode"] == "none" or len(names) == 1:
        return tuple((name,) for name in names)
    sizes = range(len(names), 1, -1) if parameter.subsets else (len(names),)
    arrange = permutations if parameter.orders else combinations
    return tuple(chosen for size in sizes for chosen in arrange(names, size))
