"""What a measured launch is held against: the plain reference's answers, and what the reference kept in its cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.session import why_cache_lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.launch import LaunchResult, LaunchSpec
    from tuner.core.measurement import Sample
    from tuner.core.trial import TrialRecord
    from tuner.core.workload import Workload
    from tuner.runs.quality_gate import Look, QualityGate
    from tuner.runs.trial_folder import TrialFolder
    from tuner.study import TrialStore


class Examining:
    """Has the last word on a result before it is recorded.

    Args:
        quality: Compares answers.
        workload: What is asked; of a session it is compared what was read again.
        store: Where the reference's launches are.
    """

    def __init__(self, quality: QualityGate, workload: Workload, store: TrialStore) -> None:
        self._quality = quality
        self._session = workload.session is not None
        self._store = store

    def begin_with(self, records: Sequence[TrialRecord]) -> None:
        """Take up what a study's launches have shown."""
        self._quality.begin_with(records)

    def look(self, spec: LaunchSpec) -> Look | None:
        """What a launch is looked at with; None not to look."""
        return self._quality.look(spec)

    def examined(
        self, result: LaunchResult, folder: TrialFolder, spec: LaunchSpec, look: Look | None
    ) -> LaunchResult:
        """The result, degraded where its answers are too far off, or it lost what the reference had kept.

        Raises:
            ResultsError: What the reference says cannot be kept.
        """
        result = self._quality.examined(result, folder, spec, look)
        if not self._session or not result.outcome.policy.may_win or spec.candidate is None:
            return result
        lost = why_cache_lost(result.samples, self._kept())
        if lost is None:
            return result
        return replace(result, outcome=Outcome(Kind.DEGRADED, phase=Phase.BENCHMARK, evidence=lost))

    def _kept(self) -> Sequence[Sample]:
        """The answers of the first reference that was measured."""
        for record in self._store.records():
            if record.reference is not None and record.score is not None and record.result is not None:
                return record.result.samples
        return ()
