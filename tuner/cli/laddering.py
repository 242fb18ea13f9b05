"""`tuner tune --context 16k,32k,max`: a study a context, and the table of what more context costs."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from tuner.cli.build.assembly import Assembly, assemble
from tuner.cli.dates import now
from tuner.cli.saying import say
from tuner.cli.study_folder import DATABASE, LADDER, LADDER_TABLE, check_writable
from tuner.cli.tuning import NOTHING_MEASURED, approved, holding, run_study, take_study
from tuner.core.trial import TrialRecord, best_of
from tuner.engine.environment import empty_config_home
from tuner.errors import ResultsError, UsageError
from tuner.report.best import best_document
from tuner.report.ladder import ladder_document, ladder_markdown, rung_of
from tuner.runs.ladder import Climb, Ladder, RungEnd, RungOrder
from tuner.runs.trial_folder import write_json
from tuner.search.confirmation.result import winner_of
from tuner.search.largest import STEP_TOKENS, largest_context, most_modest

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.cli.build.options import TuneOptions
    from tuner.cli.notify import Notifier
    from tuner.core.candidate import Candidate
    from tuner.core.ladder import Contexts
    from tuner.core.rig import Rig
    from tuner.runs.interrupt import SignalInterrupts
    from tuner.study import StudyStore

#: Where only the largest context was asked for, the first look is at this one.
_FIRST_TOKENS = 4096


def run_ladder(
    options: TuneOptions, contexts: Contexts, notifier: Notifier, *, asked: str, yes: bool, dry_run: bool
) -> None:
    """Check, show, ask, climb, conclude.

    Raises:
        TunerError: The run cannot start or go on.
        typer.Exit: It ended otherwise than with a result.
    """
    climbing = _Climbing(options, asked, notifier)
    if not dry_run:
        _free_devices(options.study_folder)
    lowest = contexts.tokens[0] if contexts.tokens else _FIRST_TOKENS
    first = climbing.assembled(RungOrder(lowest, is_max=False, budget_s=options.budget_s))
    _check_contexts(contexts, first)
    check_writable(options.study_folder)
    rungs = f"A ladder of {contexts.n_rungs} contexts ({asked}), a study each in {options.study_folder}."
    if not approved(first, yes=yes, dry_run=dry_run, below=[rungs]):
        return
    with notifier.finishing(options.study_folder / LADDER) as finish, holding(first.rig) as interrupts:
        finish.started = True
        climbing.interrupts = interrupts
        ladder = Ladder(
            contexts,
            budget_s=options.budget_s,
            make=climbing.make,
            largest=lambda: climbing.largest(contexts),
            modest=climbing.modest,
            publish=climbing.publish,
            note=say,
            known_max=climbing.known_max(),
        )
        climb = ladder.run()
        finish.why = "it was asked to stop" if climb.interrupted else "all contexts are tuned"
    say("")
    say(ladder_markdown(climb.rungs))
    say(f"Written: {options.study_folder / LADDER}, {options.study_folder / LADDER_TABLE}")
    if climb.interrupted and interrupts.received is not None:
        raise typer.Exit(128 + interrupts.received)
    if not any(rung.score_tok_s is not None for rung in climb.rungs):
        raise typer.Exit(NOTHING_MEASURED)


class _Climbing:
    """The rungs of one ladder, as studies on disk.

    Attributes:
        interrupts: Requests to stop; set before the first rung is made.
    """

    interrupts: SignalInterrupts

    def __init__(self, options: TuneOptions, asked: str, notifier: Notifier) -> None:
        self._options = options
        self._notifier = notifier
        self._asked = asked
        self._config_home = empty_config_home()
        self._folder = options.study_folder
        self._rig: Rig | None = None

    def assembled(self, order: RungOrder) -> Assembly:
        """Everything that a rung needs."""
        options = replace(
            self._options,
            context=order.context,
            study=str(order.context),
            results=self._folder,
            budget_s=order.budget_s,
            # what is left of a rung's time is for the rungs above it
            endure_s=0.0 if self._options.endure_s is None else self._options.endure_s,
        )
        assembly = assemble(
            options,
            os.environ,
            self._config_home,
            created=now(),
            rig=self._rig,  # a look at devices that we hold would find them taken
            before=order.before,
            starts=order.starts,
        )
        self._rig = assembly.rig
        return assembly

    def make(self, order: RungOrder) -> RungEnd:
        """Tune at one context, or go on with it."""
        say("")
        say(f"Context {order.context:,}{' (the largest that is expected to fit)' if order.is_max else ''}")
        with contextlib.ExitStack() as stack:
            take_study(self._folder / str(order.context), stack)
            assembly = self.assembled(order)
            ending, store = run_study(
                assembly, self.interrupts, self._notifier, cool_to_c=self._options.cool_to_c
            )
        records = store.records()
        best = best_document(records, store.facts, date=now(), confirmation=store.confirmation())
        return RungEnd(
            rung=rung_of(best, records, context=order.context, is_max=order.is_max),
            records=tuple(records),
            winner=_winner(store, records),
            used_s=sum(record.wall_s for record in records),
            interrupted=ending.interrupted,
        )

    def largest(self, contexts: Contexts) -> int | None:
        """The largest context that fits by all that the rig has taught, up to what the model was trained for."""
        lowest = max((*contexts.tokens, STEP_TOKENS))
        assembly = self.assembled(RungOrder(lowest, is_max=True, budget_s=None))
        bound, memory = assembly.plan.rules.bound, assembly.plan.rules.memory
        return largest_context(
            lambda context: replace(bound, imposed={**bound.imposed, "ctx-size": context}),
            lambda one: memory.predictor.predict(one.options),
            memory.room_mib,
            most_tokens=assembly.model.n_ctx_train or lowest,
        )

    def modest(self, context: int) -> Candidate | None:
        """What is likeliest to fit at a context, by all that the rig has taught."""
        rules = self.assembled(RungOrder(context, is_max=True, budget_s=None)).plan.rules
        predictor = rules.memory.predictor
        return most_modest(rules.bound, lambda one: predictor.predict(one.options), rules.memory.room_mib)[0]

    def publish(self, climb: Climb) -> None:
        """Write what there is of the ladder."""
        document = ladder_document(
            climb.rungs, date=now(), asked=self._asked, tried_as_max=climb.tried_as_max
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._folder / LADDER, document)
        try:
            (self._folder / LADDER_TABLE).write_text(ladder_markdown(climb.rungs) + "\n", encoding="utf-8")
        except OSError as error:
            raise ResultsError(
                f"{self._folder / LADDER_TABLE} cannot be written: {error.strerror or error}"
            ) from error

    def known_max(self) -> tuple[int, ...]:
        """What a run before this one has found out to be the largest context."""
        document = read_ladder(self._folder)
        return () if document is None else tuple(document.get("tried_as_max", ()))


def read_ladder(folder: Path) -> dict[str, Any] | None:
    """ladder.json of a folder; None where there is none that can be read."""
    try:
        document: dict[str, Any] = json.loads((folder / LADDER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document


def _free_devices(folder: Path) -> None:
    """End what a killed climb has left behind: before the devices are asked, which it would hold."""
    for database in sorted(folder.glob(f"*/{DATABASE}")):
        with contextlib.ExitStack() as stack:
            take_study(database.parent, stack)


def _check_contexts(contexts: Contexts, first: Assembly) -> None:
    """Refuse before the first launch what the last rung would be refused for."""
    trained = first.model.n_ctx_train
    highest = max(contexts.tokens, default=0)
    if highest > trained > 0:
        raise UsageError(
            f"--context: {highest:,} tokens are more than the model was trained for ({trained:,}), where a ladder "
            "ends"
        )


def _winner(store: StudyStore, records: list[TrialRecord]) -> Candidate | None:
    """What won, if it was no reference; else the best candidate, to go on with."""
    key = winner_of(store.confirmation(), records)
    if key is None:
        return None
    own = next((record.candidate for record in records if record.key == key), None)
    if own is not None:
        return own
    best = best_of([record for record in records if record.candidate is not None])
    return None if best is None else best.candidate
