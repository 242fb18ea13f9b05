"""`tuner report`: a study as one page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.dates import now
from tuner.cli.places import Places
from tuner.cli.storage_options import SharedStorage, StorageFile  # noqa: TC001 - Typer reads them
from tuner.cli.study_folder import REPORT, find_ladder, rungs_of
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.cli.opened import OpenedStudy


def report(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of a study, or its folder.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write; default: report.html in the study's folder; STUDY.html here where there is none.",
        ),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    storage: SharedStorage = None,
    storage_file: StorageFile = None,
    facts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where what rigs have taught is kept; default: your data folder."),
    ] = None,
) -> None:
    """Write a study's result as one HTML page that needs no network.

    Also while a run is going on. Of a ladder, a page for each context.
    """
    places = Places(results, storage, storage_file, os.environ)
    ladder = None if places.is_shared_alone else find_ladder(study, results)
    if ladder is not None and output is not None:
        raise UsageError(
            f"--output: {ladder} has a page for each context; name one of them: {ladder / 'TOKENS'}"
        )
    # a page takes a second to import, which no other command needs
    from tuner.cli.build.report_inputs import report_inputs  # noqa: PLC0415
    from tuner.cli.opened import open_study  # noqa: PLC0415
    from tuner.report.page.render import render  # noqa: PLC0415
    from tuner.runs.trial_folder import write_text  # noqa: PLC0415

    here = Places(results)
    opened = (
        [open_study(study, places)]
        if ladder is None
        else [open_study(str(rung), here) for rung in rungs_of(ladder)]
    )
    for one in opened:
        path = output or _default_path(one)
        text = render(report_inputs(one, facts_folder=facts), written=now())
        write_text(path, text)
        typer.echo(f"Written: {path} ({len(text.encode()) / 1e6:.1f} MB)")


def _default_path(study: OpenedStudy) -> Path:
    if study.folder is not None:
        return study.folder / REPORT
    return Path(f"{study.folder_name}.html")
