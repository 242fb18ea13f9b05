"""The main job: search until it is enough, confirm the leaders, put the winner to the test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.runs.budget import Budget, for_the_search
from tuner.runs.ending import Ending
from tuner.runs.measuring import Measuring
from tuner.runs.proving import NO_PROOF, Proof, Proving
from tuner.runs.quality_gate import QualityGate
from tuner.runs.searching import Searching
from tuner.runs.study_run import StudyRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tuner.core.candidate import Candidate
    from tuner.core.interrupt import Interrupts
    from tuner.core.launch import LaunchSpec
    from tuner.core.memory.learned import Observation
    from tuner.core.quality import Probe
    from tuner.core.trial import Errand, TrialRecord
    from tuner.runs.launching import LaunchRules
    from tuner.runs.protocols import Launcher, Progress, RigMonitor
    from tuner.search.strategy import Search
    from tuner.study import TrialStore


@dataclass(frozen=True, slots=True)
class TunePlan:
    """What is to be tuned, decided before anything starts."""

    rules: LaunchRules
    references: tuple[LaunchSpec, ...]
    """Measured first."""
    starts: tuple[tuple[str, Candidate], ...]
    """Tried next, with a word on why."""
    candidate_spec: Callable[[Candidate], LaunchSpec]
    """How a candidate is launched."""
    budget: Budget
    search: Search
    """Proposes once references and starts are through."""
    worthwhile: float
    """The improvement that is worth going on for, as a part of the best; 0 to spend the whole budget."""
    seed: int
    quality_s: float | None = None
    """How long the answers of a launch are looked at, in seconds; None not to look."""
    proof: Proof = NO_PROOF
    """How the winner is proved."""
    largest: Probe | None = None
    """What the plain reference of the largest of several files says; None where that is this study's own."""


#: A search that had nothing left to do.
SEARCHED = Ending("the search had ended")


class TuneRun:
    """One run over a study, new or resumed.

    Attributes:
        proving: How its winner is proved.
    """

    def __init__(
        self,
        plan: TunePlan,
        *,
        store: TrialStore,
        folder: Path,
        launcher: Launcher,
        monitor: RigMonitor,
        progress: Progress,
        interrupts: Interrupts,
        publish: Callable[[Sequence[TrialRecord]], None],
        remember: Callable[[Sequence[Observation]], None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._store = store
        self._begun = False
        self._study = StudyRun(
            plan.rules,
            QualityGate(plan.quality_s, plan.rules.workload, folder, largest=plan.largest),
            store=store,
            folder=folder,
            launcher=launcher,
            monitor=monitor,
            progress=progress,
            interrupts=interrupts,
            publish=publish,
            remember=remember,
        )
        desk = self._study.desk
        self._searching = Searching(
            desk,
            references=plan.references,
            starts=plan.starts,
            candidate_spec=plan.candidate_spec,
            search=plan.search,
            worthwhile=plan.worthwhile,
            seed=plan.seed,
        )
        self.proving = Proving(
            desk,
            references=plan.references,
            candidate_spec=plan.candidate_spec,
            budget=plan.budget,
            proof=plan.proof,
            worthwhile=plan.worthwhile,
            used_s=self._study.used_s,
        )
        self._measuring = Measuring(desk)

    def run(self) -> Ending:
        """Go on until all is done, the budget is spent, or somebody asks to stop.

        Raises:
            EngineError: The engine cannot be used, whatever the candidate.
            RigError: The devices fail again and again.
        """
        self.begin()
        confirmation = self._store.confirmation()
        ending = self.search()
        if ending.interrupted:
            return ending
        if ending != SEARCHED:
            confirmation = self.proving.begin(confirmation, ending)
        return self.proving.run(confirmation, ending)

    def search(self) -> Ending:
        """Go on with the search, unless it had ended with as much as it may use now.

        Raises:
            TunerError: The run cannot go on.
        """
        confirmation = self._store.confirmation()
        if confirmation is None or self.has_more_than(confirmation.budget):
            return self._searching.run(self._search_budget, self._study.used_s)
        return SEARCHED

    def spec(self, key: str) -> LaunchSpec:
        """How what has that key is launched: a reference, or a candidate that was."""
        return self.proving.spec(key)

    def measure(
        self, spec: LaunchSpec, why: str, errand: Errand, *, limit_s: float | None = None
    ) -> TrialRecord | None:
        """One launch beside search and proof; None where somebody asked to stop before.

        Args:
            spec: What to launch.
            why: A word for people.
            errand: What it is launched for.
            limit_s: Seconds after which it is stopped wherever it is; None for any.

        Raises:
            TunerError: The run cannot go on.
        """
        self.begin()
        self._plan.rules.memory.learn(self._store.records())
        return self._measuring.make(spec, why, errand, limit_s=limit_s)

    def begin(self) -> None:
        """Take up what there is of the study."""
        if self._begun:
            return
        self._begun = True
        self._study.begin()
        self._searching.note_estimates()  # a killed tuner may not have come to it
        self._study.desk.changed()

    def has_more_than(self, budget: tuple[float | None, int | None]) -> bool:
        """Whether the search may use more than that, seconds and launches."""
        now = (self._plan.budget.seconds, self._plan.budget.launches)
        return any(
            had is not None and (has is None or has > had) for had, has in zip(budget, now, strict=True)
        )

    def _search_budget(self, records: Sequence[TrialRecord]) -> Budget:
        plan = self._plan
        return for_the_search(
            plan.budget,
            records,
            blocks=plan.proof.confirm_blocks,
            n_references=len(plan.references),
            soak=plan.proof.soak,
        )
