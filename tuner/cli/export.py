"""`tuner export`: the winner of a study for other programs."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.dates import now
from tuner.cli.study_folder import DATABASE, find_study
from tuner.errors import StudyError
from tuner.report.best import best_document, check_best
from tuner.runs.trial_folder import write_text
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Format(StrEnum):
    """Forms of an export."""

    JSON = "json"


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


_WRITERS: Mapping[Format, Callable[[Mapping[str, Any]], str]] = {Format.JSON: _json}


def export(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of a study, or its folder.")],
    form: Annotated[Format, typer.Option("--format", help="Form of the export.")] = Format.JSON,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write; default: standard output."),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
) -> None:
    """Write the best configuration of a study."""
    folder = find_study(study, results)
    store = StudyStore.open(folder / DATABASE)
    document = best_document(store.records(), store.facts, date=now(), confirmation=store.confirmation())
    if document is None:
        raise StudyError(f"{folder}: nothing was measured yet, so there is nothing to export")
    check_best(document)
    text = _WRITERS[form](document)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
