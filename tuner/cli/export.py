"""`tuner export`: the winner of a study for other programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.build.served import read_best, read_serving, winner_served
from tuner.cli.places import Places
from tuner.cli.saying import note
from tuner.cli.serving_options import (  # noqa: TC001 - Typer reads them
    Alias,
    ApiKeyFile,
    Host,
    ModelPath,
    Port,
)
from tuner.cli.storage_options import SharedStorage, StorageFile  # noqa: TC001 - as above
from tuner.report.exports.registry import FORMS, Format
from tuner.runs.trial_folder import write_text

_EXECUTABLE = 0o755


def export(
    study: Annotated[
        str, typer.Argument(metavar="STUDY|FILE", help="Name of a study, its folder, or a best.json.")
    ],
    form: Annotated[Format, typer.Option("--format", help="Form of the export.")] = Format.JSON,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write; default: standard output."),
    ] = None,
    model_path: ModelPath = None,
    host: Host = None,
    port: Port = None,
    api_key_file: ApiKeyFile = None,
    alias: Alias = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    storage: SharedStorage = None,
    storage_file: StorageFile = None,
) -> None:
    """Write the best configuration of a study.

    Where it listens and what it is called may be set here; all else stays as it was measured.
    """
    places = Places(results, storage, storage_file, os.environ)
    serving = read_serving(
        model_path=model_path, host=host, port=port, api_key_file=api_key_file, alias=alias
    )
    winner = winner_served(read_best(study, places), serving, note)
    text = FORMS[form].write(winner)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    if form is Format.SHELL:
        output.chmod(_EXECUTABLE)
