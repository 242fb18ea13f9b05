"""The canary of a retune: what was best, launched in turns with what it was, and what that says."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.options import BASE_OPTIONS
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose
from tuner.runs.across import other_answers
from tuner.runs.budget import Budget
from tuner.runs.confirming import Confirming
from tuner.runs.launching import Order
from tuner.runs.works.benchmark import Benchmark
from tuner.search.canary.arms import SOAK_LAUNCHES, after_first_block, plan_of
from tuner.search.canary.causes import Seen, suspects, telling
from tuner.search.canary.claim import until_known
from tuner.search.canary.verdict import Change, Judged, Verdict, changes_of, judged
from tuner.search.canary.verdict import rates_of as launched_rates
from tuner.search.confirmation.state import Confirmation
from tuner.search.speed.trials import rates_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tuner.core.measurement import Sample
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord
    from tuner.runs.retune_plan import RetunePlan
    from tuner.runs.study_run import StudyRun

#: Launches that may be made to tell suspected options apart.
MOST_PROBES = 3
#: How far off the ratio of two launches usually is, as a logarithm, where nothing has shown it.
_USUAL_SIGMA = 0.03


class Canary:
    """The canary of one retune, new or resumed.

    Args:
        plan: What is to be done.
        study: Where its launches are recorded.
        folder: That study's.
    """

    def __init__(self, plan: RetunePlan, study: StudyRun, folder: Path) -> None:
        self._plan = plan
        self._study = study
        self._desk = study.desk
        self._store = study.desk.store
        self._folder = folder

    def run(self) -> Confirmation | None:
        """Launch what was best and what stands beside it, in turns; None where somebody asked to stop."""
        plan, arms = self._plan, self._plan.arms
        canary = self._store.canary()
        if canary is None:
            canary = Confirmation(
                round=1,
                plan=replace(
                    plan_of(arms, launches=plan.launches, blocks=plan.blocks, worthwhile=plan.worthwhile),
                    every_block=True,
                ),
                budget=(plan.seconds, plan.launches),
                out=MappingProxyType({arms.best: plan.refused} if plan.refused else {}),
            )
            self._store.note_canary(canary)
            self._desk.progress.note(
                f"Canary: {len(canary.plan.arms)} configurations, in turns, up to {canary.plan.blocks} launches each."
            )
        specs = plan.specs
        confirming = Confirming(
            self._desk,
            [one.key for one in plan.references],
            specs.__getitem__,
            blocks=plan.blocks,
            worthwhile=plan.worthwhile,
            purpose=Purpose.CANARY,
            screened=self._left_of,
        )
        return confirming.run(canary, lambda: self._budget.left_s(self._study.used_s()))

    def _left_of(self, canary: Confirmation, records: Sequence[TrialRecord]) -> Confirmation:
        """The canary of those who go on."""
        plan, arms = self._plan, self._plan.arms
        if plan.claim is None:
            return after_first_block(canary, arms, records, launches=plan.launches)
        return until_known(plan.claim, canary, records, best=arms.best, reference=arms.references[0])

    def judged(self, canary: Confirmation) -> Judged:
        """What the canary says."""
        plan, arms, records = self._plan, self._plan.arms, self._store.records()
        said = None
        if plan.same_answers:
            said = other_answers(
                self._folder,
                records,
                best=arms.best,
                previous=arms.previous,
                plain_then=plan.before.plain,
            )
        return judged(
            arms,
            canary,
            self.changes(canary),
            worthwhile=plan.worthwhile,
            other_answers=said or _objection(arms.best, records),
        )

    def changes(self, canary: Confirmation) -> dict[str, Change]:
        """How much faster everything is of which it is known how fast it was."""
        before = self._plan.before
        then: dict[str, Sequence[float]] = dict(before.scores)
        for key, rate in self._known_then.items():
            then.setdefault(key, (rate,))
        return changes_of(self._plan.arms, launched_rates(canary, self._store.records(), then))

    @cached_property
    def _known_then(self) -> dict[str, float]:
        """What each candidate made before, as far as one launch of it tells; the fastest first."""
        records = self._plan.before.records
        known = {
            record.key: rates[0]
            for record in records
            if record.candidate is not None and (rates := rates_of(record, records)) is not None
        }
        return dict(sorted(known.items(), key=lambda row: -row[1]))

    def seen(self, canary: Confirmation) -> list[Seen]:
        """What has changed by how much, the best first; nothing where it is not known of the best."""
        changes = self.changes(canary)
        own = changes.get(self._plan.arms.best)
        of_one = _USUAL_SIGMA if own is None else own.estimate.of_one or _USUAL_SIGMA
        rows = {
            key: Seen(options, change.ratio, change.estimate.sigma or of_one)
            for key, change in changes.items()
            if (options := self._options(key)) is not None
        }
        best = rows.pop(self._plan.arms.best, None)
        return [] if best is None else [best, *rows.values()]

    def _options(self, key: str) -> Mapping[str, Value] | None:
        """What has that key, as options; None for a command in somebody else's words."""
        spec = self._plan.specs.get(key)
        if spec is not None and spec.candidate is None:
            return BASE_OPTIONS if spec.reference == ENGINE_DEFAULT else None
        if spec is not None and spec.candidate is not None:
            return spec.candidate.options
        return next(
            (r.candidate.options for r in self._store.records() if r.key == key and r.candidate is not None),
            None,
        )

    def tell_apart(self, canary: Confirmation, found: Judged) -> bool:
        """Launch what tells which of several options a slower one owes it to; whether nobody asked to stop."""
        if found.verdict is not Verdict.SLOWER:
            return True
        candidates = [Candidate.from_json(json.loads(key)) for key in self._known_then]
        for _ in range(MOST_PROBES):
            best, *others = self.seen(canary)
            launched = {record.key for record in self._store.records()}
            candidate = telling(suspects(best, others), candidates, launched=launched)
            if candidate is None or self.launches_left() <= SOAK_LAUNCHES:
                return True
            if not self._launch(candidate, "is it what has become slower?"):
                return False
        return True

    def _launch(self, candidate: Candidate, why: str) -> bool:
        """Measure a candidate; whether nobody asked to stop before."""
        began = time.monotonic()
        desk, spec = self._desk, self._plan.candidate_spec(candidate)
        look = desk.examining.look(spec)
        work = Benchmark(self._plan.rules.workload, spec.asked, self._sampled, look)
        left_s = self._budget.left_s(self._study.used_s())
        record = desk.launching.make(
            Order(spec, why, work, limit_s=left_s),
            self._store.records(),
            began=began,
            finished=lambda result, folder: desk.examining.examined(result, folder, spec, look),
        )
        if record is None:
            return False
        desk.recorded(record)
        return not desk.interrupts.requested

    def _sampled(self, sample: Sample) -> None:
        self._desk.progress.sample(sample)

    @property
    def _budget(self) -> Budget:
        return Budget(self._plan.seconds, None)

    def launches_left(self) -> int:
        """Launches that may still be made; what was cut off does not count."""
        made = [
            one
            for one in self._store.records()
            if one.outcome is None or one.outcome.kind is not Kind.STOPPED
        ]
        return self._plan.launches - len(made)


def _objection(key: str, records: Sequence[TrialRecord]) -> str | None:
    """What is held against the answers of a configuration by its last launch."""
    for record in reversed(records):
        if record.key == key and record.result is not None and record.result.quality is not None:
            return record.result.quality.objection
    return None
