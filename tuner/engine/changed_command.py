"""A command with some of its options changed, and all else as its owner wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.checked_command import CheckedCommand
from tuner.engine.command_line import UserFlag, option_flags
from tuner.engine.findings.asked import NO, YES
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.options import Value
    from tuner.engine.help_text import HelpText


def changed(
    command: CheckedCommand, help_text: HelpText, changes: Mapping[str, Value | None]
) -> CheckedCommand:
    """The command with options set or, for None, taken away.

    What this engine does not know is left out: so the result can be run. A command that was written for another
    build is translated first.
    """
    kept = [flag for flag in command.flags if flag.name is not None and flag.name not in changes]
    added = [
        UserFlag(tuple(words), name)
        for name, value in changes.items()
        if value is not None and (words := option_flags(help_text, name, value))
    ]
    return CheckedCommand(command.environment, command.program, (*kept, *added))


def words_of(command: CheckedCommand) -> list[str]:
    """The flags as words of a command line."""
    return [word for flag in command.flags for word in flag.tokens]


def set_options(command: CheckedCommand, help_text: HelpText, settings: Sequence[str]) -> CheckedCommand:
    """The command with `NAME=VALUE` settings in the place of what it had.

    Raises:
        UsageError: A setting is not of that form, names no flag of this engine, or sets a switch to neither on
            nor off.
    """
    flags = list(command.flags)
    for setting in settings:
        name, sign, value = setting.partition("=")
        spelling = help_text.spelling(name.lstrip("-"))
        if not sign or spelling is None:
            raise UsageError(
                f"--set {setting!r}: write NAME=VALUE with a long flag of this llama-server, such as "
                "tensor-split=2,3"
            )
        canonical = help_text.canonical(spelling)
        flags = [flag for flag in flags if flag.name != canonical]
        words = _set_words(help_text, spelling, value)
        if words:
            flags.append(UserFlag(words, canonical))
    return CheckedCommand(command.environment, command.program, tuple(flags))


def _set_words(help_text: HelpText, spelling: str, value: str) -> tuple[str, ...]:
    """The words that set a flag; a switch takes no value, and off is its opposite, or nothing."""
    entry = help_text.entry(spelling)
    if entry is None or entry.takes_value:
        return (spelling, value)
    if value not in YES | NO:
        raise UsageError(f"--set {spelling.lstrip('-')}={value}: it is a switch; write on or off")
    if value in YES:
        return (spelling,)
    is_negation = spelling.startswith("--no-")
    opposite = (
        one for one in entry.spellings if one.startswith("--") and one.startswith("--no-") != is_negation
    )
    return tuple(next(([one] for one in opposite), []))
