"""A translated command on the terminal: itself, and what is different about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tuner.cli.checkup_screen import wrapped
from tuner.engine.translation import ChangeKind

if TYPE_CHECKING:
    from tuner.cli.build.checked_translation import CheckedTranslation

_COLOURS = {
    ChangeKind.RENAMED: typer.colors.GREEN,
    ChangeKind.PINNED: typer.colors.GREEN,
    ChangeKind.LEFT_OUT: typer.colors.YELLOW,
    ChangeKind.LOST: typer.colors.RED,
    ChangeKind.DIFFERS: typer.colors.YELLOW,
}
_LABELS = {kind: kind.value for kind in ChangeKind} | {ChangeKind.LOST: "lost"}
_INDENT = 10


def translation_screen(translation: CheckedTranslation, columns: int) -> list[str]:
    """The lines to show.

    Args:
        translation: What was translated.
        columns: Of the terminal.
    """
    lines = [f"For {translation.target}, from {translation.source}:", translation.shown]
    for change in translation.changes:
        first, *others = wrapped(str(change), columns, _INDENT)
        label = typer.style(_LABELS[change.kind].ljust(_INDENT), fg=_COLOURS[change.kind])
        lines += [f"{label}{first}", *(" " * _INDENT + line for line in others)]
    return lines
