"""What became of llama-server's flags, variables and values; the facts are data: `help/history.toml`.

Builds are those of llama.cpp, compared at 9095, 9246, 10001, 10435 and 11434.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NONE: Mapping[str, str] = MappingProxyType({})

#: The switches of loading that `--load-mode` took the place of, by their first spelling.
LOADING = ("--no-mmap", "--mmap", "--mlock", "--direct-io", "--no-direct-io")


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A flag that is gone."""

    old: tuple[str, ...]
    """Its spellings, with their dashes."""
    why: str
    new: str | None = None
    """The flag that is written instead; None where nothing is."""
    since: int | None = None
    """The build that removed it, or the first one compared that lacks it; None for one that was never there."""
    n_values: int = 1
    """How many values followed the old flag."""
    value: str | None = None
    """What the new flag is set to; None for the value of the old one."""
    by_spec_type: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The new flag by kind of drafts, where it depends on that and `new` is the usual one."""

    def written(self, value: str | None, spec_types: Collection[str] = ()) -> tuple[str, ...]:
        """The words to write instead.

        Args:
            value: What followed the old flag; None for a switch, or where it is missing.
            spec_types: Kinds of drafts that the command asks for.

        Returns:
            The new flag and its value; nothing where the old flag is just left out.
        """
        new = next((flag for kind, flag in self.by_spec_type.items() if kind in spec_types), self.new)
        if new is None:
            return ()
        follows = self.value if self.value is not None else value
        return (new,) if follows is None else (new, follows)

    @property
    def is_loading(self) -> bool:
        """Whether it is one of the switches that `--load-mode` took the place of."""
        return self.old[0] in LOADING


@dataclass(frozen=True, slots=True)
class VariableChange:
    """A variable of the environment that no longer sets anything."""

    old: str
    since: int
    """As of a flag."""
    new: str | None = None
    stops_start: bool = False
    """Whether a server that finds it ends at once; others never look at it."""


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A value that means something else now, or nothing, and that the help still lists."""

    option: str
    """Canonical name."""
    old: str
    until: str
    """A flag that builds with the new meaning list."""
    why: str
    new: str | None = None
    """What is written instead; None where nothing does what the old one did."""


@dataclass(frozen=True, slots=True)
class DefaultChange:
    """A default that changed, and that two help texts do not tell."""

    option: str
    """Canonical name."""
    until: str
    """A flag that builds with the new default list."""
    was: str
    now: str


def _history() -> dict[str, Any]:
    text = resources.files("tuner.engine").joinpath("help", "history.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _flag(table: Mapping[str, Any]) -> FlagChange:
    fields = {**table, "old": tuple(table["old"])}
    if "by_spec_type" in table:
        fields["by_spec_type"] = MappingProxyType(table["by_spec_type"])
    return FlagChange(**fields)


_TABLES = _history()

FLAG_CHANGES: tuple[FlagChange, ...] = tuple(map(_flag, _TABLES["flag"]))
VARIABLE_CHANGES: tuple[VariableChange, ...] = tuple(VariableChange(**one) for one in _TABLES["variable"])
VALUE_CHANGES: tuple[ValueChange, ...] = tuple(ValueChange(**one) for one in _TABLES["value"])
DEFAULT_CHANGES: tuple[DefaultChange, ...] = tuple(DefaultChange(**one) for one in _TABLES["default"])

#: Values that people write and no build knows, by option: what they mean.
VALUE_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {option: MappingProxyType(names) for option, names in _TABLES["meant"].items()}
)

#: What a flag meant when it could be given without a value, by option.
BARE_VALUES: Mapping[str, str] = MappingProxyType(_TABLES["bare"])

#: Options that are read only where another one is set.
READ_WITH: Mapping[str, str] = MappingProxyType(_TABLES["read_with"])

_BY_SPELLING = {spelling: change for change in FLAG_CHANGES for spelling in change.old}
_BY_VARIABLE = {change.old: change for change in VARIABLE_CHANGES}


def flag_change(spelling: str) -> FlagChange | None:
    """What became of a flag as a user writes it; None for one that is not known to be gone."""
    return _BY_SPELLING.get(spelling.replace("_", "-") if spelling.startswith("--") else spelling)


def variable_change(name: str) -> VariableChange | None:
    """What became of a variable; None for one that is not known to be gone."""
    return _BY_VARIABLE.get(name)


def older_flags(new: str) -> tuple[FlagChange, ...]:
    """The flags whose place a flag took: what an engine from before it may have."""
    return tuple(change for change in FLAG_CHANGES if change.new == new)
