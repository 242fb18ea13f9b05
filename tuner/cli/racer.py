"""One engine with one file as a study of a race: what the race asks of it, done on the rig."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from math import hypot
from typing import TYPE_CHECKING

from tuner.cli.build.assembly import Assembly, assemble
from tuner.cli.build.launches import candidate_specs
from tuner.cli.dates import now
from tuner.cli.study_facts import StudyFacts
from tuner.cli.tuning import open_store, tune_run
from tuner.core.cards import Bandwidth
from tuner.core.trial import Errand, Purpose, TrialRecord, searched
from tuner.runs.budget import Budget, launches_made
from tuner.runs.proving import NO_PROOF
from tuner.runs.several import candidate_of
from tuner.search.starts import adopted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tuner.cli.build.cells import Cell
    from tuner.cli.notify import Notifier
    from tuner.cli.progress import LineProgress
    from tuner.core.candidate import Candidate
    from tuner.core.quality import Probe
    from tuner.runs.ending import Ending
    from tuner.runs.interrupt import SignalInterrupts
    from tuner.runs.race import Turn
    from tuner.runs.tune import TunePlan, TuneRun
    from tuner.search.coordinates import BoundSpace

#: How much what devices reach differs between files, as a standard deviation of its logarithm: other types, other
#: kernels.
_OTHER_FILE_SIGMA = 0.3


class StudyRacer(StudyFacts):
    """A study of a race.

    Args:
        cell: Which engine with which file.
        assembly: Everything that it needs.
        interrupts: Requests to stop.
        config_home: An empty folder for the servers.
        notifier: Is told of better configurations.
    """

    def __init__(
        self,
        cell: Cell,
        assembly: Assembly,
        interrupts: SignalInterrupts,
        config_home: Path,
        notifier: Notifier,
    ) -> None:
        super().__init__(cell, assembly)
        self._notifier = notifier
        self._interrupts = interrupts
        self._config_home = config_home
        self._others: tuple[StudyRacer, ...] = ()
        self._progress: LineProgress | None = None

    def begin_with(
        self, racers: Sequence[StudyRacer], progress: LineProgress, reference: Callable[[], str | None]
    ) -> None:
        """Take part.

        Args:
            racers: All of them.
            progress: Is told what happens.
            reference: Gives the name of the one whose plain reference all answers are compared with.
        """
        self._others = tuple(one for one in racers if one is not self)
        self._progress = progress
        self._reference = reference

    def search(self, turn: Turn) -> Ending:
        """Search for a while.

        Raises:
            TunerError: It cannot go on.
        """
        if not self.records():
            self.assembly = self._assembled_anew()
        plan = self._plan
        seconds = None if turn.seconds is None else self._used_s + turn.seconds
        starts = (*self._from_others(plan.rules.bound), *plan.starts)
        turned = replace(plan, budget=Budget(seconds, turn.launches), proof=NO_PROOF, starts=starts)
        with self._running(turned) as run:
            return run.run()

    def prove(self, budget_s: float | None, endure_s: float) -> Ending:
        """Confirm its leaders, and put the winner to the test.

        Args:
            budget_s: What the study may use in all, in seconds; None for any.
            endure_s: For how long the winner is let work.

        Raises:
            TunerError: The run cannot go on.
        """
        plan = self._plan
        budget = Budget(budget_s, launches_made(searched(self.records())))
        proof = replace(plan.proof, endure_s=endure_s)
        with self._running(replace(plan, budget=budget, proof=proof)) as run:
            return run.run()

    def stretch(self, winner: Candidate, context: int, limit_s: float | None) -> TrialRecord | None:
        """Launch its winner with another context; None where somebody asked to stop.

        Raises:
            TunerError: The run cannot go on.
        """
        spec = candidate_specs(context, self.assembly.model.n_units)(
            winner.with_options({"ctx-size": context})
        )
        why = f"with {context:,} tokens of context, the most that is expected to fit"
        with self._running(self._plan) as run:
            return run.measure(spec, why, Errand(Purpose.STRETCH), limit_s=limit_s)

    def measure(self, key: str, why: str, errand: Errand, limit_s: float | None) -> TrialRecord | None:
        """Launch what has that key once more; None where somebody asked to stop.

        Raises:
            TunerError: The run cannot go on.
        """
        with self._running(self._plan) as run:
            return run.measure(run.spec(key), why, errand, limit_s=limit_s)

    @contextlib.contextmanager
    def _running(self, plan: TunePlan) -> Iterator[TuneRun]:
        """A run over the study; what it recorded is read anew afterwards."""
        if self._progress is None:
            raise ValueError(f"{self.name} does not take part in a race")
        if self._store is None:
            self._store = open_store(self.assembly)
        try:
            yield tune_run(
                replace(self.assembly, plan=replace(plan, largest=self._largest())),
                self._store,
                self._progress,
                self._interrupts,
                cool_to_c=self.cell.options.cool_to_c,
                notifier=self._notifier,
            )
        finally:
            self._records = None

    def _largest(self) -> Probe | None:
        """What the largest file's plain reference says; None where that is this study's own, or other tokens."""
        other = next((one for one in self._others if one.name == self._reference()), None)
        return None if other is None or not self.has_tokens_of(other) else other.probe()

    def _assembled_anew(self) -> Assembly:
        """With all that the others have taught meanwhile: of the rig's memory, and what its devices reach."""
        return assemble(
            self.cell.options,
            os.environ,
            self._config_home,
            created=now(),
            rig=self.assembly.rig,  # a look at devices that we hold would find them taken
            rates=self._rates(),
        )

    def _rates(self) -> Mapping[str, Bandwidth]:
        """What devices reach with this engine, by another file; none where no other file has shown it."""
        for other in self._others:
            if other.cell.engine == self.cell.engine:
                rates = other.assembly.plan.search.device_rates(searched(other.records()))
                if rates:
                    return {
                        name: Bandwidth(rate.bytes_s, hypot(rate.sigma, _OTHER_FILE_SIGMA))
                        for name, rate in rates.items()
                    }
        return {}

    def _from_others(self, bound: BoundSpace) -> list[tuple[str, Candidate]]:
        """What is best of this file with another engine, and with this engine of another file."""
        found: dict[str, tuple[str, Candidate]] = {}
        for other in sorted(self._others, key=lambda one: one.cell.file != self.cell.file):
            best = candidate_of(other.winner(), other.records())
            same_file = other.cell.file == self.cell.file
            if best is None or not (same_file or other.cell.engine == self.cell.engine):
                continue
            candidate = adopted(best, bound)
            if candidate is not None:
                why = f"best with {other.cell.engine}" if same_file else f"best of {other.cell.file}"
                found.setdefault(candidate.key(), (why, candidate))
        return list(found.values())
