"""`tuner tune`: the run itself."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from tuner.cli.build.assembly import Assembly, assemble
from tuner.cli.dates import now
from tuner.cli.history import remember_best
from tuner.cli.progress import LineProgress
from tuner.cli.result_table import summary
from tuner.cli.saying import say
from tuner.cli.screen import first_screen
from tuner.cli.study_folder import BEST, DATABASE, ENGINE_HELP, check_writable
from tuner.core.space import broken_rule
from tuner.engine.environment import empty_config_home
from tuner.engine.process import end_orphan
from tuner.errors import ResultsError, RigError, TunerError
from tuner.report.best import best_document, check_best, shell_command
from tuner.report.headline import headline
from tuner.rig.host_facts import can_suspend
from tuner.rig.inhibit import SleepInhibitor
from tuner.rig.lock import RigLock
from tuner.rig.monitor import RigMonitor
from tuner.runs.interrupt import SignalInterrupts
from tuner.runs.orphans import end_orphans
from tuner.runs.trial_folder import remove_half_written, write_json, write_text
from tuner.runs.tune import TuneRun
from tuner.search.confirmation.result import winner_of
from tuner.search.ways_out import ways_out
from tuner.study import StudyStore, TpeSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tuner.cli.build.options import TuneOptions
    from tuner.cli.notify import Notifier
    from tuner.core.memory.learned import Observation
    from tuner.core.rig import Rig
    from tuner.core.trial import TrialRecord
    from tuner.engine.help_text import HelpText
    from tuner.rig.memory_facts import MemoryFacts
    from tuner.runs.ending import Ending
    from tuner.study import TrialStore

NOTHING_MEASURED = 1


def run_tune(options: TuneOptions, notifier: Notifier, *, yes: bool, dry_run: bool) -> None:
    """Check, show, ask, run, conclude.

    Raises:
        TunerError: The run cannot start or go on.
        typer.Exit: It ended otherwise than with a result.
    """
    with contextlib.ExitStack() as stack:
        config_home = empty_config_home()
        if not dry_run:
            take_study(options.study_folder, stack)
        assembly = assemble(options, os.environ, config_home, created=now())
        check_writable(assembly.study_folder)
        if not approved(assembly, yes=yes, dry_run=dry_run):
            return
        with (
            notifier.finishing(options.study_folder / BEST) as finish,
            holding(assembly.rig) as interrupts,
        ):
            finish.started = True
            ending, store = run_study(assembly, interrupts, notifier, cool_to_c=options.cool_to_c)
            finish.why = ending.why
            check_result(assembly, store, ending, interrupts.received)


def approved(
    assembly: Assembly, *, yes: bool, dry_run: bool, above: Sequence[str] = (), below: Sequence[str] = ()
) -> bool:
    """Show what a run will use and do, and ask; of a dry run, show what would be launched.

    Args:
        assembly: Everything that the run needs.
        yes: Whether to start without asking.
        dry_run: Whether nothing is started.
        above: Lines before the first screen.
        below: Lines behind it.

    Returns:
        Whether to start.
    """
    for line in (*above, *first_screen(assembly), *below):
        typer.echo(line)
    if dry_run:
        print_launches(assembly)
        return False
    return may_start(yes=yes)


def may_start(*, yes: bool) -> bool:
    """Whether to go on: a person at a terminal is asked."""
    if yes or not sys.stdin.isatty() or typer.confirm("Start?", default=True):
        return True
    typer.echo("Nothing was started.")
    return False


def take_study(folder: Path, stack: contextlib.ExitStack) -> None:
    """Hold the study for this run, and free the devices of what a killed run of it has left."""
    stack.enter_context(RigLock((str(folder.resolve()),), what="study"))
    for number in end_orphans(folder, end_orphan):
        typer.echo(f"Trial {number} was cut off and its server still ran; it is ended.")
    remove_half_written(folder)


@contextlib.contextmanager
def holding(rig: Rig) -> Iterator[SignalInterrupts]:
    """The rig is ours, signals are requests to stop, and the machine stays awake."""
    with (
        RigLock(rig.identity),
        SignalInterrupts(_say_stopping) as interrupts,
        SleepInhibitor(can_suspend=can_suspend()) as inhibitor,
    ):
        if inhibitor.problem is not None:
            typer.echo(
                f"The machine may fall asleep during the run ({inhibitor.problem}); "
                "a trial that it sleeps in is made again."
            )
        yield interrupts


def run_study(
    assembly: Assembly, interrupts: SignalInterrupts, notifier: Notifier, *, cool_to_c: int | None
) -> tuple[Ending, StudyStore]:
    """Go on with a study, or make it, to its end.

    Raises:
        TunerError: The run cannot go on.
    """
    folder, store = assembly.study_folder, open_store(assembly)
    before = store.records()
    if before:
        typer.echo(f"Going on with {folder}: {len(before)} trials are recorded.")
    progress = LineProgress(say, assembly.plan.budget, used_before_s=store.used_s())
    run = tune_run(assembly, store, progress, interrupts, cool_to_c=cool_to_c, notifier=notifier)
    return conclude(assembly, store, run.run), store


def conclude(assembly: Assembly, store: TrialStore, run: Callable[[], Ending]) -> Ending:
    """Let a run go on to its end, and show what the study holds then.

    Raises:
        TunerError: The run cannot go on.
    """
    folder = assembly.study_folder
    try:
        ending = run()
    except TunerError:
        _show_result(store, folder)  # what there is so far, before why it ends
        raise
    say(f"The run ends: {ending.why}.")
    _show_result(store, folder)
    best = best_document(store.records(), store.facts, date=now(), confirmation=store.confirmation())
    if best is not None:
        remember_best(best, assembly.rig, assembly.memory_facts.path.parent)
    return ending


def check_result(assembly: Assembly, store: TrialStore, ending: Ending, received: int | None) -> None:
    """Say what can be done where nothing was measured, and end as a command does that was asked to stop.

    Raises:
        typer.Exit: It ended otherwise than with a result.
    """
    if winner_of(store.confirmation(), store.records()) is None and not ending.interrupted:
        rules = assembly.plan.rules
        for sentence in ways_out(rules.bound, rules.memory.predictor, rules.memory.room_mib):
            say(sentence)
        raise typer.Exit(NOTHING_MEASURED)
    if received is not None:
        raise typer.Exit(128 + received)


def open_store(assembly: Assembly) -> StudyStore:
    """The study on disk, which is made where there is none.

    Raises:
        ResultsError: Its folder cannot be made.
        StudyError: It cannot be made or read, or was made with something else.
    """
    folder = make_folder(assembly)
    store = StudyStore.for_run(folder / DATABASE, assembly.identity, assembly.facts)
    keep_help(folder, assembly.engine.help)
    return store


def make_folder(assembly: Assembly) -> Path:
    """The study's folder, which is made where there is none.

    Raises:
        ResultsError: It cannot be made.
    """
    folder = assembly.study_folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"{folder} cannot be made: {error.strerror or error}") from error
    return folder


def tune_run(
    assembly: Assembly,
    store: TrialStore,
    progress: LineProgress,
    interrupts: SignalInterrupts,
    *,
    cool_to_c: int | None,
    notifier: Notifier,
) -> TuneRun:
    """A run over a study, by its plan."""
    return TuneRun(
        assembly.plan,
        store=store,
        folder=assembly.study_folder,
        launcher=assembly.launcher,
        monitor=RigMonitor(assembly.rig, cool_to_c=cool_to_c),
        progress=progress,
        interrupts=interrupts,
        publish=_publisher(store, assembly.study_folder / BEST, notifier),
        remember=memory_keeper(assembly.memory_facts),
    )


def keep_help(folder: Path, help_text: HelpText) -> None:
    """Keep with a study what its engine lists: an upgrade may replace the engine itself."""
    if not (folder / ENGINE_HELP).exists():
        write_text(folder / ENGINE_HELP, help_text.text)


def _publisher(store: TrialStore, path: Path, notifier: Notifier) -> Callable[[Sequence[TrialRecord]], None]:
    """Writes best.json whenever the study's best or what it is compared with has changed."""
    written: list[object] = []

    def best(records: Sequence[TrialRecord]) -> dict[str, Any] | None:
        return best_document(records, store.facts, date=now(), confirmation=store.confirmation())

    improved = notifier.improvements(best(store.records()), path.parent)

    def publish(records: Sequence[TrialRecord]) -> None:
        document = best(records)
        if document is None:
            path.unlink(missing_ok=True)  # it would go on naming what was disqualified
            written.clear()
            return
        content = {key: value for key, value in document.items() if key != "date"}
        if written != [content]:
            check_best(document)
            write_json(path, document)
            written[:] = [content]
            improved(document)

    return publish


def memory_keeper(facts: MemoryFacts) -> Callable[[Sequence[Observation]], None]:
    """Keeps what trials teach with the rig; a folder that cannot be written is said once and costs no night."""
    said: list[str] = []

    def keep(observations: Sequence[Observation]) -> None:
        try:
            facts.add(observations)
        except RigError as error:
            if not said:
                say(f"What this rig teaches is not kept: {error}")
            said.append(str(error))

    return keep


def _show_result(store: TrialStore, folder: Path) -> None:
    records = store.records()
    confirmation = store.confirmation()
    with contextlib.suppress(OSError):  # as in say
        Console().print(summary(records, confirmation))
    for line in headline(records, store.not_launched(), store.facts, confirmation):
        say(line)
    if winner_of(confirmation, records) is not None:
        say(f"Written: {folder / BEST}")


def print_launches(assembly: Assembly) -> None:
    """What a dry run shows."""
    plan, launcher = assembly.plan, assembly.launcher
    typer.echo("Would be launched first, in this order; then what the search proposes:")
    specs = [(spec.label, spec) for spec in plan.references]
    specs += [(why, plan.candidate_spec(candidate)) for why, candidate in plan.starts]
    bound = plan.rules.bound
    first = plan.search.propose(
        (),
        lambda one: broken_rule(bound.space, one.options) is not None,
        lambda one: plan.rules.memory.excess(one) is not None,
        lambda: TpeSampler([], seed=plan.seed),
    )
    if first is not None:
        specs.append((f"would be proposed first: {first.why}", plan.candidate_spec(first.candidate)))
    for why, spec in specs:
        typer.echo(f"# {why}")
        typer.echo(shell_command(launcher.portable_argv(spec), spec.own_environment))


def _say_stopping() -> None:
    """From a signal handler: Python's buffers may be in the middle of a write, so they are left alone."""
    with contextlib.suppress(OSError):
        os.write(2, b"Stopping: the server is ended and the trial recorded. Once more ends at once.\n")
