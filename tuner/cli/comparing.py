"""`tuner show ONE OTHER`: two results side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tuner.cli.dates import now
from tuner.cli.study_folder import DATABASE, find_study
from tuner.errors import StudyError, UsageError
from tuner.report.best import best_document, check_best
from tuner.report.compare import compared
from tuner.study import StudyStore

if TYPE_CHECKING:
    from tuner.report.compare import Comparison


def show_comparison(one: str, other: str, results: Path) -> None:
    """Print what differs, and the ratio where there is one.

    Args:
        one: A study, or a best.json.
        other: Another.
        results: Where studies are kept.

    Raises:
        StudyError: One of them cannot be read, or nothing was measured in it.
        UsageError: They cannot be compared.
    """
    comparison = compared(_result(one, results), _result(other, results), (one, other))
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


def _result(text: str, results: Path) -> dict[str, Any]:
    """The best.json of a study as it is now, or of a file."""
    path = Path(text)
    if path.is_file():
        return _read(path)
    folder = find_study(text, results)
    store = StudyStore.open(folder / DATABASE)
    document = best_document(store.records(), store.facts, date=now(), confirmation=store.confirmation())
    if document is None:
        raise StudyError(f"{folder}: nothing was measured yet, so there is nothing to compare")
    return document


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
