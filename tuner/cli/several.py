"""`tuner tune A.gguf B.gguf --server S1 --server S2`: a study a cell, and one table of engine by file."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from tuner.cli.build.assembly import Assembly, assemble
from tuner.cli.build.cells import cells_of, study_of_several
from tuner.cli.dates import now
from tuner.cli.history import remember_best
from tuner.cli.progress import LineProgress
from tuner.cli.racer import StudyRacer
from tuner.cli.saying import say
from tuner.cli.screen import several_screen
from tuner.cli.several_table import SeveralTable, kept_state
from tuner.cli.study_folder import DATABASE, LADDER, TABLE, TABLE_TEXT, check_writable
from tuner.cli.tuning import NOTHING_MEASURED, holding, may_start, print_launches, take_study
from tuner.core.rig import Rig
from tuner.engine.environment import empty_config_home
from tuner.errors import SpaceError, StudyError, UsageError
from tuner.runs.budget import Budget
from tuner.runs.race import Race
from tuner.runs.several import Several
from tuner.search.race_state import RaceState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tuner.cli.build.cells import Cell, Server
    from tuner.cli.build.options import TuneOptions
    from tuner.cli.notify import Notifier
    from tuner.runs.interrupt import SignalInterrupts


def run_several(
    options: TuneOptions,
    models: Sequence[Path],
    servers: Sequence[Server],
    notifier: Notifier,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Check, show, ask, race, conclude.

    Raises:
        TunerError: The run cannot start or go on.
        typer.Exit: It ended otherwise than with a result.
    """
    options = replace(options, study=options.study or study_of_several(options, models))
    folder = options.study_folder
    _check_folder(folder)
    cells = cells_of(options, models, servers)
    with contextlib.ExitStack() as stack:
        if not dry_run:  # before the devices are asked, which what a killed run has left would hold
            for cell in cells:
                take_study(cell.options.study_folder, stack)
        config_home = empty_config_home()
        assemblies = _assembled(cells, config_home)
        check_writable(folder)
        shown = [(cell.engine, cell.file, one) for cell, one in zip(cells, assemblies, strict=True)]
        for line in several_screen(shown, folder):
            typer.echo(line)
        if dry_run:
            for cell, assembly in zip(cells, assemblies, strict=True):
                typer.echo(f"\n{cell.name}")
                print_launches(assembly)
            return
        if not may_start(yes=yes):
            return
        rig = Rig(tuple({one.identity: one for a in assemblies for one in a.rig.devices}.values()))
        with notifier.finishing(folder / TABLE) as finish, holding(rig) as interrupts:
            finish.started = True
            racers = [
                StudyRacer(cell, assembly, interrupts, config_home, notifier)
                for cell, assembly in zip(cells, assemblies, strict=True)
            ]
            race = _race(racers, folder, interrupts, options)
            table = SeveralTable(folder, racers)
            try:
                interrupted = Several(
                    race,
                    blocks=options.confirm_blocks,
                    soak=options.soak,
                    endure_s=options.endure_s,
                    worthwhile=options.worthwhile,
                ).run()
            finally:  # what there is so far, before why it ends
                table.write(race)
            _remember(racers)
            say("")
            say(table.text(race))
            say(f"Written: {folder / TABLE}, {folder / TABLE_TEXT}")
            finish.why = "it was asked to stop" if interrupted else "the race is over"
            if interrupted and interrupts.received is not None:
                raise typer.Exit(128 + interrupts.received)
            if table.winner(race) is None:
                raise typer.Exit(NOTHING_MEASURED)


def _remember(racers: Sequence[StudyRacer]) -> None:
    """Keep with the rig what is best now with each engine and file."""
    for racer in racers:
        best = racer.best()
        if best is not None:
            remember_best(best, racer.assembly.rig, racer.assembly.memory_facts.path.parent)


def _race(
    racers: Sequence[StudyRacer], folder: Path, interrupts: SignalInterrupts, options: TuneOptions
) -> Race:
    """The race, as a run before this one has left it."""
    names, budget = [racer.name for racer in racers], (options.budget_s, options.launches)
    known = kept_state(folder) or RaceState(tuple(names), budget)
    table = SeveralTable(folder, racers)
    race = Race(
        racers,
        known.taken_up(names, budget),
        budget=Budget(*budget),
        keep=table.write,
        note=say,
        interrupts=interrupts,
    )
    used_s = sum(record.wall_s for racer in racers for record in racer.records())
    for racer in racers:
        progress = LineProgress(say, Budget(*budget), used_before_s=used_s, name=racer.name)
        racer.begin_with(racers, progress, lambda: race.state.reference)
    return race


def _assembled(cells: Sequence[Cell], config_home: Path) -> list[Assembly]:
    """Everything that each cell needs; devices are looked at once an engine.

    Raises:
        TunerError: The first thing that makes the run impossible.
    """
    rigs: dict[str, Rig] = {}
    found: list[Assembly] = []
    for cell in cells:
        try:
            assembly = assemble(
                cell.options, os.environ, config_home, created=now(), rig=rigs.get(cell.engine)
            )
        except SpaceError as error:
            raise SpaceError(f"{cell.engine} with {cell.file}: {error}") from error
        rigs[cell.engine] = assembly.rig
        twin = next(
            (
                other
                for other, before in zip(found, cells, strict=False)
                if other.engine.digest == assembly.engine.digest and before.engine != cell.engine
            ),
            None,
        )
        if twin is not None:
            raise UsageError(
                f"--server: {twin.engine.path} and {assembly.engine.path} are the same build "
                f"[{assembly.engine.digest[:12]}]; give it once"
            )
        found.append(assembly)
    return found


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else.

    Raises:
        StudyError: It does.
    """
    for name, what in ((DATABASE, "a study of one engine and one file"), (LADDER, "a ladder of contexts")):
        if (folder / name).exists():
            raise StudyError(f"{folder} holds {what}; give this one another name with --study NAME")
