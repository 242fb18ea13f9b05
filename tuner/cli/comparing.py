"""`tuner show ONE OTHER`: two results side by side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tuner.cli.opened import open_study
from tuner.errors import StudyError, UsageError
from tuner.report.best import check_best
from tuner.report.compare import compared

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.cli.places import Places
    from tuner.report.compare import Comparison


def show_comparison(one: str, other: str, places: Places) -> None:
    """Print what differs, and the ratio where there is one.

    Args:
        one: A study, or a best.json.
        other: Another.
        places: Where studies are looked for.

    Raises:
        StudyError: One of them cannot be read, or nothing was measured in it.
        UsageError: They cannot be compared.
    """
    comparison = compared(_result(one, places), _result(other, places), (one, other))
    if comparison.differences:
        Console(markup=False).print(_table(comparison))  # builds stand in brackets
    else:
        typer.echo("Rig, engine, model, workload and winner are the same.")
    if comparison.forbidden:
        raise UsageError(f"{one} and {other} cannot be compared: {'; '.join(comparison.forbidden)}")
    for line in comparison.sentences():
        typer.echo(line)


def _table(comparison: Comparison) -> Table:
    table = Table(title="What differs", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("", *comparison.names):
        table.add_column(name, overflow="fold")
    for row in comparison.differences:
        table.add_row(row.what, row.one, row.other)
    return table


def _result(text: str, places: Places) -> dict[str, Any]:
    """The best.json of a study as it is now, or of a file."""
    path = places.file_of(text)
    return open_study(text, places).best("compare") if path is None else _read(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        check_best(document)
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read as a best.json: {error}") from error
    except jsonschema.ValidationError as error:
        raise StudyError(
            f"{path} is no best.json of this version: {error.json_path}: {error.message}"
        ) from error
    return document
