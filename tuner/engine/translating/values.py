"""Values that both builds list, or neither does, and that mean something else in the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.flag_history import VALUE_CHANGES

if TYPE_CHECKING:
    from tuner.engine.flag_history import ValueChange
    from tuner.engine.help_text import HelpText


def value_change(name: str, value: str | None, old: HelpText, new: HelpText) -> ValueChange | None:
    """What became of an option's value between two builds; None where nothing is known to have.

    Args:
        name: Canonical name of the option, in the new build.
        value: As written.
        old: Of the build that it is for.
        new: Of the build that it is translated for.
    """
    for change in VALUE_CHANGES:
        if (change.option, change.old) == (name, value):
            is_crossed = new.entry(change.until) is not None and old.entry(change.until) is None
            return change if is_crossed else None
    return None
