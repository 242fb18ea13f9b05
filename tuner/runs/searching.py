"""The search: propose, launch, record, until the budget is spent or going on is not worth its time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tuner.core.memory.words import size
from tuner.core.trial import best_of, searched
from tuner.runs.ending import Ending
from tuner.runs.launching import Order
from tuner.runs.works.benchmark import Benchmark
from tuner.search.pruning import why_hopeless
from tuner.search.queue import again, pending, refusal, wanted
from tuner.study import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchSpec
    from tuner.core.measurement import Sample
    from tuner.core.trial import TrialRecord
    from tuner.runs.budget import Budget
    from tuner.runs.desk import Desk
    from tuner.search.strategy import Search


class Searching:
    """The search of a study, new or resumed.

    Args:
        desk: What every part of a run works with.
        references: Measured first.
        starts: Tried next, with a word on why.
        candidate_spec: How a candidate is launched.
        search: Proposes once references and starts are through.
        worthwhile: The improvement that is worth going on for, as a part of the best; 0 for any.
        seed: Of the sampler.
        known: Whether a candidate need not be launched, since it is known from elsewhere what it makes.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        references: Sequence[LaunchSpec],
        starts: Sequence[tuple[str, Candidate]],
        candidate_spec: Callable[[Candidate], LaunchSpec],
        search: Search,
        worthwhile: float,
        seed: int,
        known: Callable[[Candidate], bool] = lambda _candidate: False,
    ) -> None:
        self._known = known
        self._rules = desk.rules
        self._references = references
        self._starts = starts
        self._candidate_spec = candidate_spec
        self._search = search
        self._worthwhile = worthwhile
        self._seed = seed
        self._launching = desk.launching
        self._store = desk.store
        self._examining = desk.examining
        self._progress = desk.progress
        self._interrupts = desk.interrupts
        self._recorded = desk.recorded
        self._turned_away = {row.key: row for row in desk.store.not_launched()}

    def run(self, budget: Callable[[Sequence[TrialRecord]], Budget], used_s: Callable[[], float]) -> Ending:
        """Go on until the budget is spent, the space is used up, it is enough, or somebody asks to stop.

        Args:
            budget: What may be used, given all trials so far.
            used_s: Seconds that the study has used so far.

        Raises:
            EngineError: The engine cannot be used, whatever the candidate.
            RigError: The devices fail again and again.
        """
        stopped = Ending("asked to stop", interrupted=True)
        while True:
            self._store.look_after_others()
            every = self._store.records()
            records = searched(every)
            allowed = budget(every)
            if self._interrupts.requested:
                return stopped
            if (why_over := allowed.why_over(records, used_s())) is not None:
                return Ending(why_over)
            began = time.monotonic()
            self._rules.memory.learn(every)
            known = len(self._turned_away)
            chosen = self._next(records)
            if len(self._turned_away) > known:
                self._store.note_not_launched(list(self._turned_away.values()))
            if isinstance(chosen, Ending):
                return chosen
            spec, why = chosen
            if not allowed.fits(spec, records, used_s()):
                return Ending("what is left of its time is too short for another launch")
            try:
                record = self._launch(spec, why, every, began=began, allowed=allowed, used_s=used_s())
            except Taken:
                continue
            if record is None:
                return stopped
            self.note_estimates()
            self._recorded(record)

    def note_estimates(self) -> None:
        """Record what each trial makes by all of them together."""
        self._store.note_estimates(self._search.estimates(searched(self._store.records())))

    def _launch(
        self,
        spec: LaunchSpec,
        why: str,
        records: Sequence[TrialRecord],
        *,
        began: float,
        allowed: Budget,
        used_s: float,
    ) -> TrialRecord | None:
        look = self._examining.look(spec)
        work = Benchmark(self._rules.workload, spec.asked, self._watcher(spec, records), look)
        return self._launching.make(
            Order(
                spec,
                why,
                work,
                limit_s=allowed.left_s(used_s),
                still_wanted=lambda before: self._is_open(spec, searched(before), allowed),
            ),
            records,
            began=began,
            finished=lambda result, folder: self._examining.examined(result, folder, spec, look),
        )

    def _is_open(self, spec: LaunchSpec, before: Sequence[TrialRecord], allowed: Budget) -> bool:
        """Whether nobody else has begun the same, or the last launch that there was, meanwhile."""
        if allowed.why_over(before, 0.0) is not None or not wanted(spec.key, before):
            return False
        if spec.candidate is None:
            return True
        others = [record for record in before if record.key != spec.key]
        return refusal(self._rules.bound, spec.candidate, others) is None

    def _next(self, records: Sequence[TrialRecord]) -> tuple[LaunchSpec, str] | Ending:
        reference = pending(self._references, records)
        if reference is not None:
            return reference, "reference"
        repeated = again(records)
        if repeated is not None:
            return self._candidate_spec(repeated), "again"
        for why, candidate in self._starts:
            if not wanted(candidate.key(), records):
                continue
            known = len(self._turned_away)
            if not self._refuses(candidate, records):
                return self._candidate_spec(candidate), why
            if len(self._turned_away) > known:
                over = list(self._turned_away.values())[-1]
                self._progress.note(
                    f"not launched: {candidate.summary()}: it exceeds {over.device} by {size(over.over_mib)}"
                )
        why_done = self._search.why_done(records, lambda one: self._is_out(one, records), self._worthwhile)
        if why_done is not None:
            return Ending(why_done, is_complete=True)
        found = self._search.propose(
            records,
            lambda one: self._is_out(one, records),
            self._is_too_large,
            lambda: self._store.sampler(self._seed),
        )
        if found is not None:
            return self._candidate_spec(found.candidate), found.why
        every = "everything in the search space" + (" that can fit" if self._turned_away else "")
        return Ending(f"{every} was tried", is_complete=True)

    def _refuses(self, candidate: Candidate, records: Sequence[TrialRecord]) -> bool:
        """Whether a candidate is not launched: it was already, it breaks a rule, or it cannot fit."""
        return refusal(self._rules.bound, candidate, records) is not None or self._is_too_large(candidate)

    def _is_out(self, candidate: Candidate, records: Sequence[TrialRecord]) -> bool:
        """Whether the search need not, or must not, propose it."""
        return self._known(candidate) or refusal(self._rules.bound, candidate, records) is not None

    def _is_too_large(self, candidate: Candidate) -> bool:
        """Whether it cannot fit; then it is counted."""
        turned_away = self._rules.memory.turned_away(candidate)
        if turned_away is not None:
            self._turned_away.setdefault(turned_away.key, turned_away)
        return turned_away is not None

    def _watcher(self, spec: LaunchSpec, records: Sequence[TrialRecord]) -> Callable[[Sample], str | None]:
        """Is told each answer of a launch, and says when the rest of them is no use."""
        best = best_of([record for record in records if record.candidate is not None])
        seen: list[Sample] = []

        def watch(sample: Sample) -> str | None:
            seen.append(sample)
            self._progress.sample(sample)
            if spec.candidate is None or best is None or best.candidate is None or best.result is None:
                return None
            return why_hopeless(
                seen,
                best.result.samples,
                n_prompts=self._rules.workload.n_requests,
                depths=(spec.candidate.draft_depth, best.candidate.draft_depth),
                goal=self._rules.workload.goal,
            )

        return watch
