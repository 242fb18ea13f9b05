"""Re-tuning after something has changed: a canary, a verdict, and a search that begins with what is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.trial import best_of, disqualified, searched
from tuner.runs.across import KeepingGate
from tuner.runs.budget import Budget
from tuner.runs.canary import Canary
from tuner.runs.ending import Ending
from tuner.runs.proving import Proof, Proving
from tuner.runs.searching import Searching
from tuner.runs.study_run import StudyRun
from tuner.search.canary.arms import SOAK_LAUNCHES
from tuner.search.canary.causes import suspects
from tuner.search.canary.prior import Trust, prior_of
from tuner.search.canary.verdict import Judged, Verdict
from tuner.search.confirmation.result import result_of
from tuner.search.confirmation.verdict import LEAST_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tuner.core.candidate import Candidate
    from tuner.core.interrupt import Interrupts
    from tuner.core.memory.learned import Observation
    from tuner.core.trial import TrialRecord
    from tuner.runs.protocols import Launcher, Progress, RigMonitor
    from tuner.runs.retune_plan import RetunePlan
    from tuner.search.confirmation.state import Confirmation
    from tuner.study import TrialStore

#: What a search leaves for confirming: two configurations and a reference.
_CONFIRMED_AT_ONCE = 3
#: A configuration that made less than this part of the best, by what is believed of it, is not launched again.
_CLEARLY_WORSE = 0.94


@dataclass(frozen=True, slots=True)
class Retuned:
    """What came of it."""

    ending: Ending
    judged: Judged | None = None
    """None where it was interrupted before anything could be said."""
    canary: Confirmation | None = None
    suspected: frozenset[str] = frozenset()
    """Options that are behind a change of speed, as far as launches tell."""
    winner: str | None = None
    """The key of a new proven best; None where there is none, and the old result stands as it is."""


class RetuneRun:
    """One run of a retune, new or resumed.

    Args:
        plan: What is to be done.
        store: Where its trials are recorded: a study of its own.
        folder: That study's.
        launcher: Starts servers, of the engine of now and, for what was, of that of before.
        monitor: Watches the devices.
        progress: Is told what happens.
        interrupts: Requests to stop.
        remember: Is told what each trial has taught of the rig's memory.
    """

    def __init__(
        self,
        plan: RetunePlan,
        *,
        store: TrialStore,
        folder: Path,
        launcher: Launcher,
        monitor: RigMonitor,
        progress: Progress,
        interrupts: Interrupts,
        remember: Callable[[Sequence[Observation]], None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._store = store
        self._progress = progress
        self._study = StudyRun(
            plan.rules,
            KeepingGate(plan.quality_s, plan.rules.workload, folder),
            store=store,
            folder=folder,
            launcher=launcher,
            monitor=monitor,
            progress=progress,
            interrupts=interrupts,
            publish=lambda _records: None,
            remember=remember,
        )
        self._canary = Canary(plan, self._study, folder)

    def run(self) -> Retuned:
        """Canary, verdict, and where that is worth while a search and its proof.

        Raises:
            EngineError: The engine cannot be used, whatever the configuration.
            RigError: The devices fail again and again.
        """
        self._study.begin()
        canary = self._canary.run()
        if canary is None:
            return Retuned(Ending("asked to stop", interrupted=True))
        found = self._canary.judged(canary)
        if not self._canary.tell_apart(canary, found):
            return self._retuned(Ending("asked to stop", interrupted=True), canary, found)
        trust = self._trust(canary)
        stands = found.verdict is Verdict.UNCHANGED and (trust is None or trust.is_whole)
        if stands and not self._plan.starts and not self._plan.renews:
            return self._retuned(Ending("nothing has changed"), canary, found)
        ending = Ending("the search had ended")
        if self._store.confirmation() is None:
            ending = self._searched(trust)
        if ending.interrupted:
            return self._retuned(ending, canary, found)
        return self._proved(canary, found, ending)

    def measure(self) -> Retuned:
        """The canary alone, for the claim of a result."""
        self._study.begin()
        canary = self._canary.run()
        if canary is None:
            return Retuned(Ending("asked to stop", interrupted=True))
        return self._retuned(Ending("measured"), canary, self._canary.judged(canary))

    def _trust(self, canary: Confirmation) -> Trust | None:
        """How far trials of before are believed; None where nothing says."""
        seen = self._canary.seen(canary)
        return Trust.of(seen[0], seen[1:]) if seen else None

    def _searched(self, trust: Trust | None) -> Ending:
        """Search on, with what is known from before."""
        plan = self._plan
        prior = () if trust is None else prior_of(plan.before.records, trust)
        self._progress.note(_prior_sentence(prior, plan.before.records, trust))
        if self._left_to_search() <= 0:
            return Ending(f"what is left of {plan.launches} launches is for the proof")
        searching = Searching(
            self._study.desk,
            references=(),
            starts=plan.starts,
            candidate_spec=plan.candidate_spec,
            search=plan.search(prior),
            worthwhile=plan.worthwhile,
            seed=plan.seed,
            known=self._known(prior, trust),
        )
        ending = searching.run(lambda _records: self._search_budget(), self._study.used_s)
        if not ending.interrupted and self._left_to_search() <= 0:
            return Ending(f"what is left of {plan.launches} launches is for the proof")
        return ending

    def _known(self, prior: Sequence[TrialRecord], trust: Trust | None) -> Callable[[Candidate], bool]:
        """Whether it is known well enough what a candidate makes, so that it need not be launched."""
        best = best_of(self._store.records())
        rates: dict[str, float] = {}
        for record in prior:
            if record.score is not None and record.may_win:
                rates[record.key] = max(record.score, rates.get(record.key, 0.0))
        compared = trust is not None and trust.is_whole
        enough = 0.0 if best is None else best.worth * _CLEARLY_WORSE
        return lambda one: (rate := rates.get(one.key())) is not None and (compared or rate < enough)

    def _proved(self, canary: Confirmation, found: Judged, ending: Ending) -> Retuned:
        """Confirm what the search has found beyond the canary, and put the winner to the test."""
        plan = self._plan
        proving = Proving(
            self._study.desk,
            references=plan.references,
            candidate_spec=plan.candidate_spec,
            budget=self._budget,
            proof=Proof(plan.blocks, soak=plan.soak, endure_s=0.0),
            worthwhile=plan.worthwhile,
            used_s=self._study.used_s,
            launches=lambda: self._canary.launches_left() - SOAK_LAUNCHES,
        )
        confirmation = self._store.confirmation()
        if confirmation is None:
            confirmation = canary
            if (faster := self._found_beyond(canary)) is not None:
                if self._canary.launches_left() < LEAST_BLOCKS * (1 + len(plan.references)) + SOAK_LAUNCHES:
                    why = f"{faster} was faster in a single launch; more launches would tell"
                    return self._retuned(Ending(why), canary, found)
                confirmation = proving.begin(canary, ending) or canary
            self._store.note_confirmation(confirmation)
        proved = proving.run(confirmation, ending)
        if proved.interrupted:
            return self._retuned(proved, canary, found)
        return self._retuned(proved, canary, found, winner=self._winner(found))

    def _found_beyond(self, canary: Confirmation) -> str | None:
        """What the search has found that is better than everything in the canary; None for nothing."""
        best = best_of(self._store.records())
        if best is None or best.candidate is None:
            return None
        known = [one for one in canary.plan.arms if one not in canary.out]
        return None if best.key in known else best.candidate.summary()

    def _winner(self, found: Judged) -> str | None:
        """The key of a new best that is proven; None where the old result stands."""
        records, confirmation = self._store.records(), self._store.confirmation()
        result = None if confirmation is None else result_of(confirmation, records)
        if result is None or result.winner in disqualified(records):
            return None
        is_old = self._plan.arms.best in {result.winner, *result.tied_with}
        stands = is_old and found.verdict is Verdict.UNCHANGED
        return None if stands and not self._plan.renews else result.winner

    def _retuned(
        self, ending: Ending, canary: Confirmation, found: Judged, *, winner: str | None = None
    ) -> Retuned:
        seen = self._canary.seen(canary)
        moved = bool(seen) and found.verdict in {Verdict.SLOWER, Verdict.FASTER}
        return Retuned(
            ending=ending,
            judged=found,
            canary=canary,
            suspected=suspects(seen[0], seen[1:]) if moved else frozenset(),
            winner=winner,
        )

    @property
    def _budget(self) -> Budget:
        return Budget(self._plan.seconds, None)

    def _left_to_search(self) -> int:
        """Launches that the search may still make, so that what it finds can be proved."""
        return self._canary.launches_left() - LEAST_BLOCKS * _CONFIRMED_AT_ONCE - SOAK_LAUNCHES

    def _search_budget(self) -> Budget:
        """As the search counts: its own launches and the canary's."""
        made = len(searched(self._store.records()))
        return Budget(self._plan.seconds, made + max(self._left_to_search(), 0))


def _prior_sentence(prior: Sequence[TrialRecord], records: Sequence[TrialRecord], trust: Trust | None) -> str:
    """How much of what was known is believed, for people."""
    every = [record for record in records if record.candidate is not None and record.result is not None]
    if not every:
        return "Nothing is known of other configurations: the trials of before are gone."
    if trust is None:
        return f"The {len(every)} trials of before are not believed: nothing tells how they compare with now."
    said = f"{len(prior)} of {len(every)} trials of before are believed"
    if trust.is_whole:
        return f"{said}, times {trust.others:.2f}."
    suspected = ", ".join(sorted(trust.suspected))
    return f"{said}: times {trust.changed:.2f} with {suspected}, times {trust.others:.2f} without."
