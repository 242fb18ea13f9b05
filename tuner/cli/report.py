"""`tuner report`: a study as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.dates import now
from tuner.cli.study_folder import REPORT, find_ladder, find_study, rungs_of
from tuner.errors import UsageError


def report(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of a study, or its folder.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write; default: report.html in the study's folder.",
        ),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    facts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where what rigs have taught is kept; default: your data folder."),
    ] = None,
) -> None:
    """Write a study's result as one HTML page that needs no network.

    Also while a run is going on. Of a ladder, a page for each context.
    """
    ladder = find_ladder(study, results)
    if ladder is not None and output is not None:
        raise UsageError(
            f"--output: {ladder} has a page for each context; name one of them: {ladder / 'TOKENS'}"
        )
    # a page takes a second to import, which no other command needs
    from tuner.cli.build.report_inputs import report_inputs  # noqa: PLC0415
    from tuner.report.page.render import render  # noqa: PLC0415
    from tuner.runs.trial_folder import write_text  # noqa: PLC0415

    for folder in [find_study(study, results)] if ladder is None else rungs_of(ladder):
        path = output or folder / REPORT
        text = render(report_inputs(folder, facts_folder=facts), written=now())
        write_text(path, text)
        typer.echo(f"Written: {path} ({len(text.encode()) / 1e6:.1f} MB)")
