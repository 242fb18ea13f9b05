"""What a run says while it goes on."""

from __future__ import annotations

import contextlib

import typer


def say(text: str) -> None:
    """Print a line; a run does not end because the terminal it was started from is gone."""
    with contextlib.suppress(OSError):
        typer.echo(text)
