"""A search space: what is fixed, what varies and when, and which combinations are not tried."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from tuner.core.options import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Condition = tuple[tuple[str, tuple[Value, ...]], ...]
"""Options and the values they may have; all must match. Empty: always."""

Operator = Literal["<=", "<", "==", "!=", ">=", ">"]

_COMPARE: Mapping[Operator, Callable[[float, float], bool]] = MappingProxyType(
    {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that takes one of some values."""

    name: str
    choices: tuple[Value, ...]
    default: Value
    when: Condition = ()


@dataclass(frozen=True, slots=True)
class IntRange:
    """A parameter that takes a whole number, both ends included."""

    name: str
    low: int
    high: int
    step: int
    default: int
    when: Condition = ()


@dataclass(frozen=True, slots=True)
class FloatRange:
    """A parameter that takes a number on a grid, both ends included."""

    name: str
    low: float
    high: float
    step: float
    default: float
    when: Condition = ()


@dataclass(frozen=True, slots=True)
class Split:
    """The tensor split: whole parts of the model, at least one for each device."""

    name: str
    layer_steps: int | None
    """Parts in layer mode; None is one part for each layer and one for the output, which is what exists."""
    tensor_steps: int
    """Parts in tensor mode."""
    when: Condition = ()


@dataclass(frozen=True, slots=True)
class Devices:
    """Which devices, and in which order."""

    name: str
    subsets: bool
    """Whether a device may be left out."""
    orders: bool
    """Whether other orders than the engine's are tried."""
    when: Condition = ()


@dataclass(frozen=True, slots=True)
class InRam:
    """How many layers of each device keep their experts in RAM; of a dense model, their feed-forward parts."""

    name: str
    when: Condition = ()


Parameter = Choice | IntRange | FloatRange | Split | Devices | InRam


@dataclass(frozen=True, slots=True)
class Rule:
    """A comparison that every candidate has to satisfy where both options are set."""

    left: str
    op: Operator
    right: str | Value
    """Another option's name, or a value."""
    right_is_option: bool
    when: Condition = ()

    def __str__(self) -> str:
        """The rule as a person would write it."""
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Start:
    """A candidate to try before the sampler proposes; options that it does not name have their defaults."""

    about: str
    options: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Cap:
    """At most so many launches for candidates of a kind, because they are slow or seldom good."""

    when: Condition
    launches: int


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """What may vary, and which combinations may not."""

    name: str
    about: str
    fixed: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    parameters: tuple[Parameter, ...] = ()
    """A parameter comes after those that its condition names."""
    rules: tuple[Rule, ...] = ()
    starts: tuple[Start, ...] = ()
    caps: tuple[Cap, ...] = ()

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name; None where the space does not vary it."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)

    def choices(self, name: str) -> tuple[Value, ...]:
        """The values that the space names for an option; none where it does not vary it by a list."""
        parameter = self.parameter(name)
        return parameter.choices if isinstance(parameter, Choice) else ()


def widened(space: SearchSpace, more: SearchSpace) -> SearchSpace:
    """A space with what another has beyond it: parameters that it neither fixes nor varies, and starts.

    Args:
        space: Its own parameters stay as they are.
        more: Its rules come with its parameters.
    """
    known = {*space.fixed, *(parameter.name for parameter in space.parameters)}
    parameters = tuple(parameter for parameter in more.parameters if parameter.name not in known)
    return replace(
        space,
        parameters=(*space.parameters, *parameters),
        rules=tuple(dict.fromkeys((*space.rules, *more.rules))),
        starts=(*more.starts, *space.starts),
    )


def holds(condition: Condition, options: Mapping[str, Value]) -> bool:
    """Whether options meet a condition; an option that is not set meets none."""
    return all(name in options and options[name] in allowed for name, allowed in condition)


def broken_rule(space: SearchSpace, options: Mapping[str, Value]) -> Rule | None:
    """The first rule that the options break; None where all are kept."""
    for rule in space.rules:
        if not holds(rule.when, options) or rule.left not in options:
            continue
        if rule.right_is_option and rule.right not in options:
            continue
        right = options[str(rule.right)] if rule.right_is_option else rule.right
        if not _compare(options[rule.left], rule.op, right):
            return rule
    return None


def full_cap(
    space: SearchSpace, options: Mapping[str, Value], launched: Sequence[Mapping[str, Value]]
) -> Cap | None:
    """The first cap that these options fall under and that the launches so far have used up."""
    for cap in space.caps:
        if holds(cap.when, options) and sum(holds(cap.when, one) for one in launched) >= cap.launches:
            return cap
    return None


def _compare(left: Value, op: Operator, right: Value) -> bool:
    if op == "==":
        return left == right
    if op == "!=":
        return left != right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return _COMPARE[op](left, right)
    return True  # an order between texts says nothing
