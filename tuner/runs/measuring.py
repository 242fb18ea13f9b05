"""A launch that is measured as the search measures, but for another purpose: nothing is given up on the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tuner.runs.launching import Order
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from tuner.core.launch import LaunchSpec
    from tuner.core.measurement import Sample
    from tuner.core.trial import Errand, TrialRecord
    from tuner.runs.desk import Desk


class Measuring:
    """Measures in one study.

    Args:
        desk: What every part of a run works with.
    """

    def __init__(self, desk: Desk) -> None:
        self._workload = desk.rules.workload
        self._launching = desk.launching
        self._store = desk.store
        self._examining = desk.examining
        self._progress = desk.progress
        self._recorded = desk.recorded

    def make(
        self, spec: LaunchSpec, why: str, errand: Errand, *, limit_s: float | None
    ) -> TrialRecord | None:
        """Launch once, and record what came of it; None where somebody asked to stop before.

        Args:
            spec: What to launch.
            why: A word for people.
            errand: What it is launched for.
            limit_s: Seconds after which it is stopped wherever it is; None for any.

        Raises:
            TunerError: The run cannot go on.
        """
        began = time.monotonic()
        look = self._examining.look(spec)
        work = Benchmark(self._workload, spec.asked, self._sampled, look)
        record = self._launching.make(
            Order(spec, why, work, errand, limit_s),
            self._store.records(),
            began=began,
            finished=lambda result, folder: self._examining.examined(result, folder, spec, look),
        )
        if record is not None:
            self._recorded(record)
        return record

    def _sampled(self, sample: Sample) -> None:
        self._progress.sample(sample)
