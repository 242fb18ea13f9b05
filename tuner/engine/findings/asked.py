"""What a command asks of the server, and what is known of model, devices and build."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.options import OPTIONS, ValueType
from tuner.engine.flag_history import VALUE_NAMES
from tuner.engine.user_command import option_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tuner.core.model import ModelFile
    from tuner.engine.checked_command import CheckedCommand
    from tuner.engine.help_text import HelpText

#: More digits are more than any option takes, and more than Python reads.
_LEADING = re.compile(r"\s*[+-]?\d{1,18}")
#: The words that the engine takes for yes, in a flag's value and in a variable alike.
YES, NO = frozenset({"on", "enabled", "true", "1"}), frozenset({"off", "disabled", "false", "0"})

#: Their values are nobody's business.
SECRETS = frozenset({"api-key", "hf-token"})

DEFAULT_SLOTS = 4
"""What a server takes where nobody says how many; they share one KV cache then."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A command and what it meets. A variable sets an option as its flag does, and the flag wins."""

    command: CheckedCommand
    help_text: HelpText
    model: ModelFile | None = None
    n_listed: int | None = None
    """Devices that the engine sees; None where that is not known."""
    fa_all_quants: bool | None = None
    """Whether the build has FlashAttention kernels for all pairs of KV types; None where that is not known."""
    device_names: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The command's variables that set an option, by the option's canonical name."""

    def value(self, name: str) -> str | None:
        """What an option is set to; None where it is not set or is a switch."""
        if self.command.has(name):
            return self.command.value(name)
        variable = self.variables.get(name)
        return None if variable is None else self.command.environment[variable]

    def has(self, name: str) -> bool:
        """Whether an option is set at all."""
        return self.command.has(name) or name in self.variables

    def number(self, name: str) -> int | None:
        """A whole number as the engine reads it: what stands before the first other character."""
        read = _LEADING.match(self.value(name) or "")
        return None if read is None else int(read[0])

    def is_on(self, name: str) -> bool | None:
        """Whether a switch is on; None where nothing sets it."""
        flag = self.command.last(name)
        if flag is not None and name in OPTIONS and OPTIONS[name].value_type is ValueType.SWITCH:
            return bool(option_value(flag))
        if flag is not None:
            return True
        value = self.value(name)
        return None if value is None else value in YES

    def written(self, name: str) -> str:
        """How the option stands in the command; a key without its value."""
        flag = self.command.last(name)
        if flag is not None:
            return flag.tokens[0] if name in SECRETS else " ".join(flag.tokens)
        variable = self.variables.get(name)
        if variable is None:
            return f"--{name}"
        return variable if name in SECRETS else f"{variable}={self.command.environment[variable]}"

    def set_names(self, prefix: str) -> list[str]:
        """The options that are set and begin so, in the order of the command."""
        names = [flag.name for flag in self.command.flags if flag.name is not None]
        return [name for name in dict.fromkeys([*names, *self.variables]) if name.startswith(prefix)]

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it runs on, as far as their names are known."""
        named = self.value("device")
        return self.device_names if named is None else tuple(part.strip() for part in named.split(","))

    @property
    def n_devices(self) -> int | None:
        """How many devices it runs on; None where that is not known."""
        if self.has("device"):
            return 0 if self.devices == ("none",) else len(self.devices)
        return self.n_listed

    @property
    def split_mode(self) -> str:
        """The split mode, the engine's own where none is given."""
        return self.value("split-mode") or "layer"

    @property
    def spec_types(self) -> tuple[str, ...]:
        """The kinds of drafts, those meant by a wrong name too; a repeated flag adds to them."""
        values = [flag.value for flag in self.command.flags if flag.name == "spec-type"]
        if not values:
            values = [self.value("spec-type")]
        kinds = [part.strip() for value in values if value for part in value.split(",")]
        if self.has("spec-default"):
            kinds.append("ngram-mod")
        meant = [VALUE_NAMES["spec-type"].get(kind, kind) for kind in kinds]
        return tuple(kind for kind in dict.fromkeys(meant) if kind != "none")

    def knows(self, name: str, value: str) -> bool:
        """Whether the help lists a value: what tells one build from another."""
        entry = self.help_text.option(name)
        return entry is not None and value in entry.allowed


def asked_of(
    command: CheckedCommand,
    help_text: HelpText,
    *,
    model: ModelFile | None,
    n_devices: int | None,
    fa_all_quants: bool | None,
    device_names: tuple[str, ...],
) -> Asked:
    """A command with what it meets; its variables that set options are found in the help text."""
    variables = {
        name: variable
        for variable, name in option_variables(help_text).items()
        if variable in command.environment
    }
    return Asked(command, help_text, model, n_devices, fa_all_quants, device_names, variables)


def option_variables(help_text: HelpText) -> dict[str, str]:
    """The canonical name of the option that each variable sets."""
    names = ((name, help_text.canonical(entry.spellings[-1])) for name, entry in help_text.variables.items())
    return {name: option for name, option in names if option is not None}


def problem(subject: str, text: str, remedy: str) -> Check:
    """The server would not start, or would do something else than what is written."""
    return Check(Topic.COMMAND, subject, Level.PROBLEM, text, remedy)


def warning(subject: str, text: str, remedy: str) -> Check:
    """It runs, and something of it is not what it looks like."""
    return Check(Topic.COMMAND, subject, Level.WARNING, text, remedy)


def unknown(subject: str, text: str, remedy: str) -> Check:
    """It cannot be told from here."""
    return Check(Topic.COMMAND, subject, Level.UNKNOWN, text, remedy)


def listed(words: Iterable[str]) -> str:
    """Words in a sentence: `a`, `a and b`, `a, b and c`."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last
