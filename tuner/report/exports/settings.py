"""A command's words as settings, for forms that have a line for each option instead of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.engine.command_line import read_user_flags
from tuner.engine.user_command import is_switched_on
from tuner.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.engine.help_text import HelpText


@dataclass(frozen=True, slots=True)
class Setting:
    """One option as this engine has it."""

    flag: str
    """As it stood in the command."""
    key: str
    """Its long name in this engine's spelling, without dashes."""
    variable: str | None
    """The environment variable that stands for it; None where it has none."""
    value: str | bool
    """A switch is on or off."""

    @property
    def text(self) -> str:
        """The value as these forms write it."""
        return str(self.value).lower() if isinstance(self.value, bool) else self.value


def settings_of(help_text: HelpText, words: Sequence[str], form: str) -> list[Setting]:
    """The settings that a command's words make, in their order.

    Args:
        help_text: The engine's.
        words: What follows the program.
        form: Of the export, for messages.

    Raises:
        ExportError: A flag is not listed by the engine, or stands twice: these forms hold one value for each.
    """
    settings: list[Setting] = []
    for flag in read_user_flags(help_text, words):
        shown = flag.tokens[0]
        entry = None if flag.name is None else help_text.option(flag.name) or help_text.entry(shown)
        if flag.name is None or entry is None:
            raise ExportError(
                f"{form}: this llama-server's help does not list {shown}, so it cannot be written as a setting; "
                "take --format shell"
            )
        key = (help_text.spelling(flag.name) or shown).lstrip("-")
        if any(one.key == key for one in settings):
            raise ExportError(
                f"{form}: {shown} stands more than once in the command, and the form holds one value for each; "
                "take --format shell"
            )
        value = is_switched_on(flag) if flag.value is None else flag.value
        settings.append(Setting(shown, key, entry.variable, value))
    return settings
