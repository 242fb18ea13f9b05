"""`tuner show`: what a study holds, and two results side by side."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tuner.cli.history import history_table
from tuner.cli.places import Places
from tuner.cli.result_table import summary, trials_table
from tuner.cli.storage_options import SharedStorage, StorageFile  # noqa: TC001 - Typer reads them
from tuner.cli.study_folder import find_table, read_retuned
from tuner.core.candidate import format_value
from tuner.core.rig import device_identity
from tuner.errors import StudyError, UsageError
from tuner.report.proof import label
from tuner.rig.history import History, histories

if TYPE_CHECKING:
    from tuner.cli.opened import OpenedStudy
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord


def show(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="Name of a study, or its folder; to compare, also a best.json."),
    ] = None,
    other: Annotated[
        str | None,
        typer.Argument(metavar="OTHER", help="Another, to say what differs and by how much it is faster."),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    storage: SharedStorage = None,
    storage_file: StorageFile = None,
    csv: Annotated[bool, typer.Option("--csv", help="All trials as CSV, for a spreadsheet.")] = False,
    history: Annotated[
        bool,
        typer.Option(
            "--history", help="What was best when, with which build: on the rig of STUDY, or on all."
        ),
    ] = False,
    facts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where what rigs have taught is kept; default: your data folder."),
    ] = None,
) -> None:
    """Show the trials of a study, its winner and its references; of a ladder, or several engines, the table.

    Two results are compared where rig, model and workload are the same. Of a storage that several machines share,
    without STUDY, the studies that it holds.
    """
    places = Places(results, storage, storage_file, os.environ)
    if history:
        _show_history(study, places, facts)
        return
    if study is None:
        _show_studies(places, csv=csv)
        return
    if other is not None:
        from tuner.cli.comparing import show_comparison  # noqa: PLC0415 - Optuna takes a second

        if csv:
            raise UsageError("--csv: of one study, not of two")
        show_comparison(study, other, places)
        return
    table = None if places.is_shared_alone else find_table(study, results)
    if table is not None and not csv:
        typer.echo(table.read_text(encoding="utf-8"), nl=False)
        return
    from tuner.cli.opened import open_study  # noqa: PLC0415 - Optuna takes a second

    opened = open_study(study, places)
    if csv:
        _write_csv(opened)
    else:
        _show(opened)


def _show_studies(places: Places, *, csv: bool) -> None:
    location = places.location()
    if location is None:
        raise UsageError(
            "name a study, or ask for --history; with --storage URL, the studies there are listed"
        )
    if csv:
        raise UsageError("--csv: name the study")
    from tuner.cli.studies_table import show_studies  # noqa: PLC0415 - Optuna takes a second

    show_studies(location)


def _show(study: OpenedStudy) -> None:
    from tuner.cli.build.report_inputs import report_inputs  # noqa: PLC0415 - Optuna takes a second
    from tuner.report.view.essentials import essentials  # noqa: PLC0415 - as above
    from tuner.report.view.verdict import verdict  # noqa: PLC0415 - as above
    from tuner.report.view.workers import worker_lines  # noqa: PLC0415 - as above

    inputs = report_inputs(study, with_walls=False)
    console, said = Console(), verdict(inputs)
    console.print(trials_table(inputs.records, inputs.confirmation))
    console.print(summary(inputs.records, inputs.confirmation))
    for line in (*said.behind, *essentials(inputs)):
        typer.echo(line)
    retuned = None if study.own_folder is None else read_retuned(study.own_folder)
    for line in (retuned or {}).get("sentences", ()):
        typer.echo(line)
    if inputs.workers:
        typer.echo("")
        typer.echo(f"Shared: {study.place}")
        for line in worker_lines(inputs.workers):
            typer.echo(line)
    typer.echo("")
    typer.echo(said.state)
    typer.echo(said.sentence)
    if said.command is not None:
        typer.echo("The command, without host and port:")
        typer.echo(said.command)


def _write_csv(study: OpenedStudy) -> None:
    import pandas as pd  # noqa: PLC0415 - half a second that only this option needs

    rows = []
    for record in study.store.records():
        rates, outcome = record.rates, record.outcome
        rows.append(
            {
                "trial": record.number,
                "purpose": record.errand.purpose.value,
                "configuration": label(record),
                "outcome": None if outcome is None else outcome.kind.value,
                "generation_tok_s": None if rates is None else rates.generation_tok_s,
                "prompt_tok_s": None if rates is None else rates.prompt_tok_s,
                "ttft_s": None if rates is None else rates.ttft_s,
                "acceptance": None if rates is None else rates.acceptance,
                "wall_s": record.wall_s,
                **{name: format_value(name, value) for name, value in _options(record)},
            }
        )
    pd.DataFrame(rows, dtype=object).to_csv(sys.stdout, index=False)


def _show_history(study: str | None, places: Places, facts: Path | None) -> None:
    from tuner.cli.opened import open_study  # noqa: PLC0415 - Optuna takes a second

    if study is None and places.is_shared_alone:
        raise UsageError("--history is kept on each machine: name the study whose rig is meant")
    known = histories(facts)
    if study is not None:
        devices = open_study(study, places).store.facts["devices"]
        names = tuple(device_identity(row["uuid"], row["name"], row["description"]) for row in devices)
        own = History(names, facts).load()
        known = [own] if own.entries else []
    if not known:
        raise StudyError(
            "nothing is known of what was best here; it is kept at the end of tuner tune and tuner retune"
        )
    console = Console()
    for one in known:
        console.print(history_table(one))


def _options(record: TrialRecord) -> tuple[tuple[str, Value], ...]:
    return () if record.candidate is None else record.candidate.items
