"""Reading a decoded TOML document of options: everything wrong is named by its dotted key."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, cast

from tuner.core.experts import ExpertRun
from tuner.core.options import OPTIONS, Value, ValueType, is_environment, is_foreign
from tuner.errors import SpaceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tuner.core.space import Condition


class DocumentReader:
    """Reads parts of a document; keeps the name for its errors."""

    def __init__(self, name: str) -> None:
        self._name = name

    def fail(self, key: str, what: str) -> NoReturn:
        """Refuse the document."""
        raise SpaceError(f"{self._name}: {key}: {what}")

    def known(self, key: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
        """Refuse a key that is none of the allowed ones."""
        for name in table:
            if name not in allowed:
                dotted = f"{key}.{name}" if key else name
                self.fail(dotted, f"unknown key; known here: {', '.join(sorted(allowed))}")

    def table(self, key: str, value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever TOML holds
        """Refuse what is no table."""
        if not isinstance(value, dict):
            self.fail(key, f"must be a table, got {value!r}")
        return value

    def rows(self, key: str, document: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
        """The rows of an array of tables, with their index."""
        value = document.get(key, [])
        if not isinstance(value, list):
            self.fail(key, f"must be an array of tables ([[{key}]]), got {value!r}")
        return [(index, self.table(f"{key}[{index}]", row)) for index, row in enumerate(value)]

    def option(self, key: str, name: str) -> None:
        """Refuse a name that is no option."""
        if is_foreign(name):
            if name.removeprefix("--") in OPTIONS:
                self.fail(
                    key, f"write {name.removeprefix('--')}: dashes are for options that only a fork has"
                )
            return
        if name not in OPTIONS and not is_environment(name):
            self.fail(
                key,
                f"unknown option {name!r}; options are spelled as llama-server's long flags without dashes "
                "(tensor-split, ubatch-size, cache-type-k), environment variables in capitals (GGML_...), and what "
                'only a fork has with its dashes ("--fused-moe")',
            )

    def value(self, key: str, name: str, value: Any) -> Value:  # noqa: ANN401 - whatever TOML holds
        """A value of an option, checked against how that option is written."""
        self.option(key, name)
        if is_foreign(name):
            if not isinstance(value, (str, bool, int, float)) or (
                isinstance(value, float) and not isfinite(value)
            ):
                self.fail(key, f"must be a text, a number, true or false, got {value!r}")
            return value
        kind = ValueType.TEXT if name not in OPTIONS else OPTIONS[name].value_type
        if isinstance(value, list):
            value = tuple(value)
        ok = {
            ValueType.TEXT: isinstance(value, str),
            ValueType.INTEGER: isinstance(value, int) and not isinstance(value, bool),
            ValueType.NUMBER: isinstance(value, (int, float))
            and not isinstance(value, bool)
            and isfinite(value),
            ValueType.SWITCH: isinstance(value, bool),
            ValueType.DEVICES: _is_tuple_of(value, str),
            ValueType.SPLIT: _is_tuple_of(value, int) and all(part >= 0 for part in value) and any(value),
            ValueType.EXPERTS: _is_tuple_of(value, str)
            and all(ExpertRun.read(entry) is not None for entry in value),
        }[kind]
        if not ok:
            self.fail(key, f"must be a {kind}, got {value!r}")
        return float(value) if kind is ValueType.NUMBER else cast("Value", value)  # 0 and 0.0 are one value

    def condition(self, key: str, value: Any) -> Condition:  # noqa: ANN401 - whatever TOML holds
        """Options and the values that they may have."""
        pairs = []
        for name, allowed in self.table(key, value).items():
            dotted = f"{key}.{name}"
            self.option(dotted, name)
            values = allowed if isinstance(allowed, list) else [allowed]
            if not values:
                self.fail(dotted, "allows nothing")
            pairs.append((name, tuple(self.value(dotted, name, one) for one in values)))
        return tuple(pairs)


def _is_tuple_of(value: object, kind: type) -> bool:
    return (
        isinstance(value, tuple)
        and bool(value)
        and all(isinstance(part, kind) and not isinstance(part, bool) for part in value)
    )
