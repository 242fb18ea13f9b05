"""From a decoded TOML document to a `SearchSpace`; everything wrong is named by its dotted key."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast, get_args

from tuner.core.document_reader import DocumentReader
from tuner.core.options import OPTIONS, Value, ValueType
from tuner.core.space import (
    Cap,
    Choice,
    Condition,
    Devices,
    FloatRange,
    InRam,
    IntRange,
    Operator,
    Parameter,
    Rule,
    SearchSpace,
    Split,
    Start,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCHEMA_VERSION = 1

_TOP = {"schema_version", "about", "fixed", "parameters", "rules", "start", "caps"}
_PARAMETER_KEYS = {
    "choice": {"choices", "default"},
    "int": {"low", "high", "step", "default"},
    "float": {"low", "high", "step", "default"},
    "split": {"layer_steps", "tensor_steps"},
    "devices": {"subsets", "orders"},
    "in-ram": set(),
    "cores": set(),
}
_KIND_OF = {ValueType.SPLIT: "split", ValueType.DEVICES: "devices", ValueType.EXPERTS: "in-ram"}
#: What is drawn as parts of the host's cores.
_OF_CORES = frozenset({"threads", "threads-batch"})


@dataclass(frozen=True, slots=True)
class Cores:
    """A host's processor cores."""

    physical: int = 8
    logical: int = 16
    """With those that share a core's units."""


def parse_space(name: str, document: Mapping[str, Any], cores: Cores | None = None) -> SearchSpace:
    """Check a document and build the space.

    Args:
        name: Of the space.
        document: As TOML decodes it.
        cores: The host's, of which parameters of the kind `cores` are parts; an eight-core's if None.

    Raises:
        SpaceError: The first thing wrong, as `<name>: <dotted key>: <what>`.
    """
    reader = _SpaceReader(name, cores or Cores())
    reader.known("", document, _TOP)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        reader.fail("schema_version", f"must be {SCHEMA_VERSION}, got {version!r}")
    about = document.get("about", "")
    if not isinstance(about, str):
        reader.fail("about", f"must be a text, got {about!r}")
    fixed = {
        key: reader.value(f"fixed.{key}", key, value)
        for key, value in reader.table("fixed", document.get("fixed", {})).items()
    }
    tables = reader.table("parameters", document.get("parameters", {}))
    parameters = tuple(reader.parameter(key, tables[key], fixed) for key in tables)
    return SearchSpace(
        name=name,
        about=about.strip(),
        fixed=MappingProxyType(fixed),
        parameters=reader.in_order(parameters, fixed),
        rules=tuple(reader.rule(f"rules[{i}]", row) for i, row in reader.rows("rules", document)),
        starts=tuple(reader.start(f"start[{i}]", row) for i, row in reader.rows("start", document)),
        caps=tuple(reader.cap(f"caps[{i}]", row) for i, row in reader.rows("caps", document)),
    )


class _SpaceReader(DocumentReader):
    """Reads the parts of a space."""

    def __init__(self, name: str, cores: Cores) -> None:
        super().__init__(name)
        self.cores = cores

    def parameter(self, name: str, value: Any, fixed: Mapping[str, Value]) -> Parameter:  # noqa: ANN401
        key = f"parameters.{name}"
        table = self.table(key, value)
        self.option(key, name)
        if name in fixed:
            self.fail(key, f"is fixed as well (fixed.{name}); keep one of the two")
        kind = table.get("kind")
        if not isinstance(kind, str) or kind not in _PARAMETER_KEYS:
            self.fail(f"{key}.kind", f"must be one of {', '.join(_PARAMETER_KEYS)}, got {kind!r}")
        self.known(key, table, _PARAMETER_KEYS[kind] | {"kind", "when"})
        needed = _KIND_OF.get(OPTIONS[name].value_type) if name in OPTIONS else None
        listed = needed == "in-ram" and kind == "choice"  # a few placements, each with its layers
        if kind != needed and not listed and (needed is not None or kind in _KIND_OF.values()):
            self.fail(f"{key}.kind", f"{name} is of kind {needed or 'choice, int or float'}, got {kind!r}")
        when = self.condition(f"{key}.when", table.get("when", {}))
        readers: Mapping[str, Callable[[str, str, Mapping[str, Any], Condition], Parameter]] = {
            "choice": self._choice,
            "int": self._int,
            "float": self._float,
            "split": self._split,
            "devices": self._devices,
            "in-ram": lambda _key, name, _table, when: InRam(name, when),
            "cores": self._cores,
        }
        return readers[kind](key, name, table, when)

    def _choice(self, key: str, name: str, table: Mapping[str, Any], when: Condition) -> Choice:
        values = table.get("choices")
        if not isinstance(values, list) or not values:
            self.fail(f"{key}.choices", f"must be a list of at least one value, got {values!r}")
        choices = tuple(self.value(f"{key}.choices[{i}]", name, one) for i, one in enumerate(values))
        if len(set(choices)) < len(choices):
            self.fail(f"{key}.choices", "holds the same value twice")
        default = self.value(f"{key}.default", name, table.get("default", values[0]))
        if default not in choices:
            self.fail(f"{key}.default", f"{default!r} is none of the choices")
        return Choice(name, choices, default, when)

    def _int(self, key: str, name: str, table: Mapping[str, Any], when: Condition) -> IntRange:
        low, high, step, default = self._range(key, name, table, ValueType.INTEGER)
        return IntRange(name, int(low), int(high), int(step), int(default), when)

    def _float(self, key: str, name: str, table: Mapping[str, Any], when: Condition) -> FloatRange:
        low, high, step, default = self._range(key, name, table, ValueType.NUMBER)
        return FloatRange(name, float(low), float(high), float(step), float(default), when)

    def _range(
        self, key: str, name: str, table: Mapping[str, Any], needed: ValueType
    ) -> tuple[float, float, float, float]:
        value_type = OPTIONS[name].value_type if name in OPTIONS else ValueType.TEXT
        if value_type is not needed:
            fitting = {ValueType.INTEGER: "int", ValueType.NUMBER: "float"}.get(value_type, "choice")
            self.fail(f"{key}.kind", f"{name} is a {value_type}: use kind {fitting}")
        step = 1 if needed is ValueType.INTEGER else 0.05
        for end in ("low", "high"):
            if end not in table:
                self.fail(f"{key}.{end}", "is missing")
        low, high, step, default = (
            cast("float", self.value(f"{key}.{part}", name, table.get(part, fallback)))
            for part, fallback in (("low", 0), ("high", 0), ("step", step), ("default", table["low"]))
        )
        if low > high:
            self.fail(f"{key}.high", f"must be at least low ({low}), got {high}")
        if step <= 0:
            self.fail(f"{key}.step", f"must be above 0, got {step}")
        if not low <= default <= high:
            self.fail(f"{key}.default", f"must lie from {low} to {high}, got {default}")
        for part, number in (("high", high), ("default", default)):
            if (Decimal(str(number)) - Decimal(str(low))) % Decimal(str(step)):
                self.fail(f"{key}.{part}", f"must be {low} plus whole steps of {step}, got {number}")
        return low, high, step, default

    def _split(self, key: str, name: str, table: Mapping[str, Any], when: Condition) -> Split:
        layer_steps: Any = table.get("layer_steps", "layers")
        tensor_steps: Any = table.get("tensor_steps", 20)
        if layer_steps != "layers" and not _is_count(layer_steps):
            self.fail(
                f"{key}.layer_steps", f'must be "layers" or a whole number above 1, got {layer_steps!r}'
            )
        if not _is_count(tensor_steps):
            self.fail(f"{key}.tensor_steps", f"must be a whole number above 1, got {tensor_steps!r}")
        return Split(name, None if layer_steps == "layers" else layer_steps, tensor_steps, when)

    def _devices(self, key: str, name: str, table: Mapping[str, Any], when: Condition) -> Devices:
        subsets, orders = (self._switch(key, table, part) for part in ("subsets", "orders"))
        return Devices(name, subsets=subsets, orders=orders, when=when)

    def _cores(self, key: str, name: str, _table: Mapping[str, Any], when: Condition) -> Choice:
        """As many threads as the host has cores, and parts of that: not all are alike, and they share memory."""
        if name not in _OF_CORES:
            self.fail(f"{key}.kind", f"{name} is no number of threads: use another kind")
        cores = self.cores
        choices = {
            cores.physical,
            cores.logical,
            *(max(round(cores.physical * part), 1) for part in (0.5, 0.75)),
        }
        return Choice(name, tuple(sorted(choices)), cores.physical, when)

    def _switch(self, key: str, table: Mapping[str, Any], name: str) -> bool:
        value = table.get(name, False)
        if not isinstance(value, bool):
            self.fail(f"{key}.{name}", f"must be true or false, got {value!r}")
        return value

    def in_order(
        self, parameters: tuple[Parameter, ...], fixed: Mapping[str, Value]
    ) -> tuple[Parameter, ...]:
        """Parents before the parameters whose conditions name them."""
        done: list[Parameter] = []
        left = list(parameters)
        names = {parameter.name for parameter in parameters}
        while left:
            known = {parameter.name for parameter in done} | set(fixed)
            ready = [p for p in left if all(name in known or name not in names for name in _parents(p))]
            if not ready:
                self.fail(f"parameters.{left[0].name}.when", "goes in a circle")
            done += ready
            left = [p for p in left if p not in ready]
        return tuple(done)

    def rule(self, key: str, row: Mapping[str, Any]) -> Rule:
        self.known(key, row, {"left", "op", "right", "when"})
        for part in ("left", "op", "right"):
            if part not in row:
                self.fail(f"{key}.{part}", "is missing")
        left, op, right = row["left"], row["op"], row["right"]
        if not isinstance(left, str):
            self.fail(f"{key}.left", f"must be an option's name, got {left!r}")
        self.option(f"{key}.left", left)
        if op not in get_args(Operator):
            self.fail(f"{key}.op", f"must be one of {' '.join(get_args(Operator))}, got {op!r}")
        right_is_option = isinstance(right, str) and right in OPTIONS
        if not right_is_option:
            right = self.value(f"{key}.right", left, right)
        return Rule(left, op, right, right_is_option, self.condition(f"{key}.when", row.get("when", {})))

    def start(self, key: str, row: Mapping[str, Any]) -> Start:
        about = row.get("about", "")
        if not isinstance(about, str):
            self.fail(f"{key}.about", f"must be a text, got {about!r}")
        options = {k: self.value(f"{key}.{k}", k, value) for k, value in row.items() if k != "about"}
        if not options:
            self.fail(key, "sets no option")
        return Start(about, MappingProxyType(options))

    def cap(self, key: str, row: Mapping[str, Any]) -> Cap:
        self.known(key, row, {"when", "launches"})
        launches = row.get("launches")
        if not isinstance(launches, int) or isinstance(launches, bool) or launches < 0:
            self.fail(f"{key}.launches", f"must be a whole number from 0 on, got {launches!r}")
        when = self.condition(f"{key}.when", row.get("when", {}))
        if not when:
            self.fail(f"{key}.when", "is missing: which candidates does it count?")
        return Cap(when, launches)


def _parents(parameter: Parameter) -> tuple[str, ...]:
    """The options that decide whether, or from what, a parameter is drawn."""
    implied: tuple[str, ...] = ()
    if isinstance(parameter, Devices):
        implied = ("split-mode",)
    elif isinstance(parameter, Split):
        implied = ("split-mode", "device")
    elif isinstance(parameter, InRam):
        implied = ("split-mode", "device", "tensor-split")
    return (*implied, *(name for name, _ in parameter.when))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1
