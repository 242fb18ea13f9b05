"""A study of several machines: making it, joining it, and one worker's part of it."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

import typer

from tuner.cli.build.assembly import assemble
from tuner.cli.build.joining import (
    class_of,
    differs_in_rig_alone,
    folder_name,
    joined_options,
    keep_worker,
    run_options,
    transferred,
    why_refused,
    worker_of,
)
from tuner.cli.dates import now
from tuner.cli.progress import LineProgress
from tuner.cli.saying import say
from tuner.cli.study_folder import BEST, check_writable
from tuner.cli.tuning import (
    approved,
    check_result,
    conclude,
    holding,
    keep_help,
    make_folder,
    take_study,
    tune_run,
)
from tuner.core.interrupt import Interrupted
from tuner.engine.environment import empty_config_home
from tuner.errors import StudyError
from tuner.runs.worker import WorkerRun
from tuner.search.coordinates import coordinates
from tuner.study import Making, SharedStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.cli.build.assembly import Assembly
    from tuner.cli.build.joining import Place
    from tuner.cli.build.options import TuneOptions
    from tuner.cli.notify import Notifier
    from tuner.core.interrupt import Interrupts
    from tuner.runs.interrupt import SignalInterrupts
    from tuner.study import Worker
    from tuner.study.location import Location

#: How often a worker that stands by looks what the others do, at most.
_POLL_S = 2.0
#: A storage that was not missed for so long is away another time; a connection may take long to fail.
_ANOTHER_S = 60.0


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a new study is shared."""

    location: Location
    lease_s: float
    per_rig_class: bool = False


def make_and_work(
    options: TuneOptions, sharing: Sharing, notifier: Notifier, *, yes: bool, dry_run: bool
) -> None:
    """Make a study that several machines share, and be its first worker.

    Raises:
        TunerError: The run cannot start or go on.
        typer.Exit: It ended otherwise than with a result.
    """
    with contextlib.ExitStack() as stack:
        if not dry_run:
            take_study(options.study_folder, stack)
        assembly = assemble(options, os.environ, empty_config_home(), created=now(), by_class=True)
        check_writable(assembly.study_folder)
        shared = f"Shared: {sharing.location} {options.study_folder.name}"
        if not approved(assembly, yes=yes, dry_run=dry_run, above=[shared]):
            return
        worker = worker_of(options.study_folder)
        making = Making(
            assembly.identity, assembly.facts, sharing.lease_s, per_rig_class=sharing.per_rig_class
        )
        with holding(assembly.rig) as interrupts:
            store = SharedStore.for_run(
                sharing.location,
                options.study_folder.name,
                making,
                worker=worker,
                place_of=_places(assembly),
                wait=_Patience(interrupts),
            )
            if store.run_options() != run_options(options):
                store.note_run(run_options(options))
            typer.echo(f"Others join it with: tuner worker {store.name} --storage {sharing.location}")
            _work(assembly, store, worker, interrupts, notifier, cool_to_c=options.cool_to_c)


def join_and_work(
    study: str, location: Location, place: Place, notifier: Notifier, *, yes: bool, dry_run: bool
) -> None:
    """Be a worker of a study that exists.

    Raises:
        StudyError: There is none, or this machine has something else than it was made with.
        TunerError: The run cannot start or go on.
        typer.Exit: It ended otherwise than with a result.
    """
    shown = SharedStore.open(location, study)
    options = joined_options(shown, place)
    with contextlib.ExitStack() as stack:
        if not dry_run:
            take_study(options.study_folder, stack)
        assembly = assemble(options, os.environ, empty_config_home(), created=now(), by_class=True)
        name = _name_of_class(shown, assembly)
        if name != shown.name:
            options = replace(options, study=folder_name(name))
            if not dry_run:
                take_study(options.study_folder, stack)
            assembly = _beside(shown, options)
        check_writable(assembly.study_folder)
        if not approved(assembly, yes=yes, dry_run=dry_run, above=[f"Shared: {location} {name}"]):
            return
        worker = worker_of(assembly.study_folder)
        making = Making(assembly.identity, assembly.facts, shown.lease_s, parent=shown.name)
        with holding(assembly.rig) as interrupts:
            opened = MappingProxyType(
                {"worker": worker, "place_of": _places(assembly), "wait": _Patience(interrupts)}
            )
            if name == shown.name:
                store = SharedStore.open(location, name, **opened)
            else:
                store = SharedStore.for_run(location, name, making, **opened)
                store.note_run(shown.run_options())
            _work(assembly, store, worker, interrupts, notifier, cool_to_c=options.cool_to_c)


def _name_of_class(shown: SharedStore, assembly: Assembly) -> str:
    """The study for this rig's class: the one that is joined, or one beside it.

    Raises:
        StudyError: This machine has something else than it was made with.
    """
    differences = why_refused(shown, assembly.identity)
    if not differences:
        return shown.name
    if shown.per_rig_class and differs_in_rig_alone(shown, assembly.identity):
        return f"{shown.name}@{class_of(assembly.identity)}"
    advice = (
        "; rigs of another class can join a study that was made with --per-rig-class"
        if differs_in_rig_alone(shown, assembly.identity)
        else ""
    )
    raise StudyError(
        f"{shown.place}: this machine cannot join it: {'; '.join(differences)}. Give what the study was made with "
        f"(--model, --server, -- FLAGS), or make another study{advice}"
    )


def _beside(shown: SharedStore, options: TuneOptions) -> Assembly:
    """What a study of another class of rigs begins with: what is known of devices that both have."""
    plain = assemble(options, os.environ, empty_config_home(), created=now(), by_class=True)
    learned, rates = transferred(shown, plain)
    assembly = assemble(options, os.environ, empty_config_home(), created=now(), by_class=True, rates=rates)
    memory = assembly.plan.rules.memory
    memory.begin_with((*memory.known_before, *learned))
    memory.learn(())  # what is shown before anything is launched goes by it, too
    typer.echo(
        f"Another class of rigs than {shown.name}'s: a study of its own beside it. From there come "
        f"{len(learned)} facts of memory and the speed of {len(rates)} devices."
    )
    return assembly


def _work(
    assembly: Assembly,
    store: SharedStore,
    worker: Worker,
    interrupts: SignalInterrupts,
    notifier: Notifier,
    *,
    cool_to_c: int | None,
) -> None:
    folder = make_folder(assembly)
    keep_worker(folder, worker, store)
    keep_help(folder, assembly.engine.help)
    progress = LineProgress(say, assembly.plan.budget, used_before_s=store.used_s())
    run = tune_run(assembly, store, progress, interrupts, cool_to_c=cool_to_c, notifier=notifier)
    part = WorkerRun(
        run,
        assembly.plan,
        store=store,
        worker=worker,
        progress=progress,
        interrupts=interrupts,
        poll_s=min(_POLL_S, store.lease_s / 4),
    )
    with notifier.finishing(folder / BEST) as finish:
        finish.started = True
        ending = conclude(assembly, store, part.run)
        finish.why = ending.why
        check_result(assembly, store, ending, interrupts.received)


def _places(assembly: Assembly) -> Callable[..., object]:
    bound = assembly.plan.rules.bound
    return lambda candidate: coordinates(bound, candidate)


class _Patience:
    """Waits for a storage that is away, and says so once each time that it is."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._said = ""
        self._last_s = -inf

    def __call__(self, why: str, seconds: float) -> bool:
        """Whether to try again."""
        now_s = time.monotonic()
        if why != self._said or now_s - self._last_s > _ANOTHER_S + seconds:
            say(f"{why}. Waiting for it; what was measured is on this machine's disk.")
        self._said, self._last_s = why, now_s
        try:
            self._interrupts.sleep(seconds)
        except Interrupted:
            return False
        return True
