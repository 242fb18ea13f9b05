"""What commands say beside their result."""

from __future__ import annotations

import contextlib

import typer


def say(text: str) -> None:
    """Print a line; a run does not end because the terminal it was started from is gone."""
    with contextlib.suppress(OSError):
        typer.echo(text)


def note(text: str) -> None:
    """Tell the user something on standard error; standard output is the result's."""
    typer.echo(f"note: {text}", err=True)
