"""A `llama-server` command as a user has it in a script or in the history of a shell."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tuner.core.experts import override_entries
from tuner.core.options import BASE_OPTIONS, OPTIONS, Value, ValueType
from tuner.core.workload import Sampling
from tuner.engine.command_line import MANAGED, UserFlag, read_user_flags
from tuner.engine.environment import is_secret
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.engine.help_text import HelpText

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

#: With one of these a server never serves.
PRINTS_AND_ENDS = frozenset({"help", "usage", "version", "list-devices", "cache-list", "completion-bash"})

#: Flags that set samplers, and the request's field for each.
SAMPLER_FIELDS: Mapping[str, str] = {
    "temp": "temperature",
    "temperature": "temperature",
    "top-k": "top_k",
    "top-p": "top_p",
    "min-p": "min_p",
    "typical": "typical_p",
    "typical-p": "typical_p",
    "repeat-penalty": "repeat_penalty",
    "repeat-last-n": "repeat_last_n",
    "presence-penalty": "presence_penalty",
    "frequency-penalty": "frequency_penalty",
    "dry-multiplier": "dry_multiplier",
    "xtc-probability": "xtc_probability",
    "xtc-threshold": "xtc_threshold",
    "top-n-sigma": "top_n_sigma",
    "top-nsigma": "top_n_sigma",
    "dynatemp-range": "dynatemp_range",
    "dynatemp-exp": "dynatemp_exponent",
    "dry-base": "dry_base",
    "dry-allowed-length": "dry_allowed_length",
    "dry-penalty-last-n": "dry_penalty_last_n",
    "mirostat": "mirostat",
    "mirostat-lr": "mirostat_eta",
    "mirostat-ent": "mirostat_tau",
}


@dataclass(frozen=True, slots=True)
class UserCommand:
    """A command of the user's, taken apart but not changed."""

    environment: Mapping[str, str]
    """Assignments before the program."""
    flags: tuple[UserFlag, ...]
    """All flags but those that the tuner sets for each launch."""
    left_out: tuple[str, ...]
    """Flags that the tuner sets itself (host, port, key), or that would keep it from the server; and variables
    that hold the user's keys."""

    @property
    def argv(self) -> list[str]:
        """The flags as words again, untouched."""
        return [token for flag in self.flags for token in flag.tokens]

    def value(self, name: str) -> str | None:
        """The value of an option by canonical name, the last one if repeated; None where it is not set."""
        values = [flag.value for flag in self.flags if flag.name == name]
        return values[-1] if values else None

    @property
    def sampling(self) -> Sampling:
        """The samplers that it sets."""
        values: dict[str, float | int | str] = {}
        for flag in self.flags:
            field = SAMPLER_FIELDS.get(flag.name or "")
            if field is not None and flag.value is not None:
                values[field] = number(flag.value, f"--current: {flag.tokens[0]}")
        return Sampling(values, source="current")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command as a shell takes it apart, before anybody asks what its words mean."""

    environment: Mapping[str, str]
    """Assignments before the program."""
    program: str
    """Empty where the words begin with a flag."""
    words: tuple[str, ...]
    """All that follows the program."""


def shell_command(command: str, where: str) -> ShellCommand:
    """Split a command as typed, over several lines or in one.

    Args:
        command: As typed.
        where: What it was given to, for the message.

    Raises:
        UsageError: It cannot be split into words, or holds no command.
    """
    try:
        words = shlex.split(command.replace("\\\n", " "))
    except ValueError as error:
        raise UsageError(f"{where}: {error} in: {command}") from error
    environment: dict[str, str] = {}
    while words and (assigned := assignment(words[0])) is not None:
        environment[assigned[0]] = assigned[1]
        words.pop(0)
    if not words:
        raise UsageError(f'{where}: holds no command; give it whole: {where} "llama-server -m ... -ts 2,3"')
    program = "" if words[0].startswith("-") else words.pop(0)
    return ShellCommand(environment, program, tuple(words))


def assignment(word: str) -> tuple[str, str] | None:
    """Name and value of a word that sets a variable; None for any other."""
    if _ASSIGNMENT.match(word) is None:
        return None
    name, _, value = word.partition("=")
    return name, value


def parse_command(help_text: HelpText, command: str) -> UserCommand:
    """Take a command apart: assignments, program, flags.

    Raises:
        UsageError: It cannot be split into words, has no program, or holds a word that is no flag.
    """
    shell = shell_command(command, "--current")
    environment = {name: value for name, value in shell.environment.items() if not is_secret(name)}
    secrets = [name for name in shell.environment if is_secret(name)]
    try:
        flags = read_user_flags(help_text, shell.words)
    except UsageError as error:
        raise UsageError(f"--current: {error}") from error
    kept = tuple(flag for flag in flags if flag.name not in MANAGED)
    # without values: one of them is a key
    managed = [flag.tokens[0] for flag in flags if flag.name in MANAGED and flag.name != "model"]
    return UserCommand(environment, kept, (*secrets, *managed))


def parse_extra(help_text: HelpText, words: list[str]) -> tuple[UserFlag, ...]:
    """Flags that go to every launch and every export, as given after `--`.

    Raises:
        UsageError: A flag that the tuner sets itself, or a word that is no flag.
    """
    flags = read_user_flags(help_text, words)
    for flag in flags:
        if flag.name in PRINTS_AND_ENDS:
            raise UsageError(
                f"{flag.tokens[0]} after -- makes llama-server print something and end; leave it out"
            )
        if flag.name in MANAGED:
            raise UsageError(f"{flag.tokens[0]} after -- is set by the tuner for each launch; leave it out")
    return tuple(flags)


def parse_sampling(text: str) -> Sampling:
    """Samplers as `temp=0.6,top-k=20`.

    Raises:
        UsageError: An unknown name or a value that is no number.
    """
    values: dict[str, float | int | str] = {}
    for part in text.split(","):
        name, sign, value = part.strip().partition("=")
        field = SAMPLER_FIELDS.get(name.replace("_", "-"))
        if not sign or field is None:
            raise UsageError(
                f"--sampling: {part.strip()!r} is not understood; write NAME=VALUE with NAME one of "
                f"{', '.join(sorted(SAMPLER_FIELDS))}"
            )
        values[field] = number(value, f"--sampling: {name}")
    return Sampling(values, source="option")


def number(text: str, where: str) -> float | int:
    """A finite number out of a text, whole where it is written so.

    Raises:
        UsageError: It is none.
    """
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    raise UsageError(f"{where} must be a number, got {text!r}")


def option_value(flag: UserFlag) -> Value:
    """What a user's flag sets its option to, as a value of ours.

    Raises:
        UsageError: The value is not of the option's kind.
    """
    kind = OPTIONS[str(flag.name)].value_type
    shown = " ".join(flag.tokens)
    if kind is ValueType.SWITCH:
        return is_switched_on(flag)
    if flag.value is None:
        raise UsageError(f"{shown} needs a value")
    return _READERS[kind](flag.value, shown)


def is_switched_on(flag: UserFlag) -> bool:
    """Whether a flag switches its option on, or off."""
    if flag.value is not None:
        return flag.value in {"on", "1", "true", "enabled"}
    # negations are --no-X, -nX or -no-X; --no-host is the name of an option
    spelled = flag.tokens[0].lstrip("-").replace("_", "-")
    return spelled == flag.name or not spelled.startswith("n")


def split_value(text: str, where: str) -> tuple[int, ...]:
    """Proportions as written (`2,3`, `0.6/0.4`) in whole numbers.

    Raises:
        UsageError: One of them is no number from 0 on, or all are 0.
    """
    parts = [number(part, where) for part in re.split(r"[,/]", text)]
    scale = 1 if all(isinstance(part, int) for part in parts) else 10_000
    split = tuple(round(part * scale) for part in parts)
    if min(split) < 0 or not any(split):
        raise UsageError(f"{where}: proportions have to be 0 or more, and one of them above 0")
    return split


def _whole(text: str, where: str) -> int:
    if text in {"all", "auto"}:  # layers: all that there are
        return cast("int", BASE_OPTIONS["gpu-layers"])
    value = number(text, where)
    if not isinstance(value, int):
        raise UsageError(f"{where}: must be a whole number")
    return value


def _experts(text: str, _where: str) -> Value:
    """What a candidate says of the layers; a user's own patterns as they stand."""
    return override_entries(text) or text


_READERS: Mapping[ValueType, Callable[[str, str], Value]] = {
    ValueType.EXPERTS: _experts,
    ValueType.DEVICES: lambda text, _: tuple(text.split(",")),
    ValueType.SPLIT: split_value,
    ValueType.TEXT: lambda text, _: text,
    ValueType.INTEGER: _whole,
    ValueType.NUMBER: number,
}
