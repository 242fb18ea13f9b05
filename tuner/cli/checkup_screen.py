"""A checkup on the terminal: a line or two for each check, and what they come to."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import typer

from tuner.core.checkup.check import Level, count, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.checkup.check import Check

_COLOURS = {
    Level.OK: typer.colors.GREEN,
    Level.WARNING: typer.colors.YELLOW,
    Level.PROBLEM: typer.colors.RED,
    Level.UNKNOWN: typer.colors.CYAN,
}
_TOPIC_WIDTH, _LEVEL_WIDTH = 9, 9
_INDENT = _TOPIC_WIDTH + _LEVEL_WIDTH
_NARROWEST, _WIDEST = 60, 140


def checkup_screen(checks: Sequence[Check], columns: int) -> list[str]:
    """The lines to show.

    Args:
        checks: In the order of their topics.
        columns: Of the terminal.
    """
    lines: list[str] = []
    topic = None
    for check in joined(checks):
        head = "" if check.topic is topic else check.topic.value
        topic = check.topic
        lines += _lines(check, head, columns)
    return [*lines, "", _sum(checks)]


def wrapped(text: str, columns: int, indent: int, mark: str = "") -> list[str]:
    """A text as lines of a terminal that is neither too narrow nor too wide to read.

    Args:
        text: In one line.
        columns: Of the terminal.
        indent: How many columns stand before each line.
        mark: What the first line begins with.
    """
    return textwrap.wrap(
        text,
        min(max(columns, _NARROWEST), _WIDEST) - indent,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _lines(check: Check, head: str, columns: int) -> list[str]:
    said = f"{check.subject}: {check.text}" if check.subject else check.text
    first, *others = wrapped(said, columns, _INDENT)
    if check.remedy and check.level is not Level.OK:
        others += wrapped(check.remedy, columns, _INDENT, mark="-> ")
    level = typer.style(check.level.value.ljust(_LEVEL_WIDTH), fg=_COLOURS[check.level])
    return [f"{head:<{_TOPIC_WIDTH}}{level}{first}", *(" " * _INDENT + line for line in others)]


def _sum(checks: Sequence[Check]) -> str:
    problems, warnings, unknown = (
        count(checks, level) for level in (Level.PROBLEM, Level.WARNING, Level.UNKNOWN)
    )
    parts = [f"{problems or 'No'} {'problem' if problems == 1 else 'problems'}"]
    parts.append(f"{warnings or 'no'} {'warning' if warnings == 1 else 'warnings'}")
    if unknown:
        parts.append(f"{unknown} that could not be checked")
    return f"{', '.join(parts)}."
