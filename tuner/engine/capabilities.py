"""What can be said to an engine: the options that a candidate may have, and the values that its help lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.options import OPTIONS
from tuner.engine.command_line import can_take, can_write
from tuner.engine.load_modes import SWITCHES

if TYPE_CHECKING:
    from tuner.engine.help_text import HelpText


def capabilities(help_text: HelpText) -> dict[str, str]:
    """Options by canonical name, each with the values that are listed for it, sorted and joined by commas.

    What an engine cannot be told is missing; an option for which no values are listed has an empty text.
    """
    return {name: ",".join(_values(help_text, name)) for name in OPTIONS if can_write(help_text, name)}


def _values(help_text: HelpText, name: str) -> list[str]:
    entry = help_text.option(name)
    if entry is None:  # `load-mode`, in a build that has only the switches of before
        return sorted(mode for mode in SWITCHES if can_take(help_text, name, mode))
    return sorted(entry.allowed)
