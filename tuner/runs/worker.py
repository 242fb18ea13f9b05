"""One of several workers on one study: joins it, searches beside the others, and proves the winner or stands by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.interrupt import Interrupted
from tuner.core.trial import SEARCHING, Purpose
from tuner.errors import RigError
from tuner.runs.ending import Ending
from tuner.runs.tune import SEARCHED
from tuner.search.confirmation.state import launches_of
from tuner.search.likeness import ENOUGH, Likeness, likeness
from tuner.search.queue import wanted
from tuner.study import PROVING, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.interrupt import Interrupts
    from tuner.core.launch import LaunchSpec
    from tuner.core.trial import TrialRecord
    from tuner.runs.protocols import Progress
    from tuner.runs.tune import TunePlan, TuneRun
    from tuner.search.confirmation.state import Confirmation
    from tuner.study import SharedStore, Worker

_STOPPED = Ending("asked to stop", interrupted=True)


class WorkerRun:
    """One worker's part of a study.

    Args:
        run: How it launches, searches and proves.
        plan: What is to be tuned.
        store: What all workers share.
        worker: Who we are.
        progress: Is told what happens.
        interrupts: Requests to stop.
        poll_s: How often it looks what the others do while it stands by.
    """

    def __init__(
        self,
        run: TuneRun,
        plan: TunePlan,
        *,
        store: SharedStore,
        worker: Worker,
        progress: Progress,
        interrupts: Interrupts,
        poll_s: float,
    ) -> None:
        self._run = run
        self._plan = plan
        self._store = store
        self._worker = worker
        self._progress = progress
        self._interrupts = interrupts
        self._poll_s = poll_s
        self._refused_at = -1
        """The last trial here before this rig was refused, which was before somebody looked after it."""

    def run(self) -> Ending:
        """Work until the study is complete, or somebody asks to stop.

        Raises:
            RigError: This rig is not like the others'.
            TunerError: The run cannot go on.
        """
        self._run.begin()
        try:
            return self._work()
        except Interrupted:
            return _STOPPED
        finally:
            self._store.close()

    def _work(self) -> Ending:
        if (complete := self._complete()) is not None:
            return complete
        if not self._join():
            return _STOPPED
        while True:
            ending = self._run.search()
            if ending.interrupted:
                return ending
            if (complete := self._complete()) is not None:
                return complete
            if self._store.others_search():
                self._stand_by(
                    "the search is over but for what others are in the middle of", self._store.others_search
                )
            elif not self._store.take(PROVING):
                self._stand_by("another worker proves the winner", lambda: self._store.is_taken(PROVING))
            else:
                try:
                    return self._prove(ending)
                except Taken:
                    self._progress.note(
                        "Another worker goes on with the proof: nothing was heard of this one."
                    )
                finally:
                    self._store.give_back(PROVING)

    def _complete(self) -> Ending | None:
        """Why the study is; None where there is something to do."""
        ended = self._store.ended()
        if ended is None or self._run.has_more_than(ended.budget):
            return None
        return Ending(f"the study is complete: {ended.why}")

    def _stand_by(self, why: str, lasts: Callable[[], bool]) -> None:
        self._progress.note(f"Standing by: {why}.")
        while lasts():
            self._interrupts.sleep(self._poll_s)
            self._store.look_after_others()

    # --- joining

    def _join(self) -> bool:
        """Measure the references here, and see whether this rig is like the others'; False if asked to stop.

        Raises:
            RigError: It is not.
        """
        was_refused = self._worker.id in self._store.apart()
        if was_refused:
            before = [one.number for one in self._store.every_record() if one.worker == self._worker.id]
            self._refused_at = max(before, default=-1)
        for spec in self._plan.references:
            while wanted(spec.key, self._own(spec)):
                if self._measured(spec, "reference") is None:
                    return False
        if self._first_measures():
            self._stand_by("the first rig still measures what this one is compared by", self._first_measures)
        shared = next((spec for spec in self._plan.references if self._theirs(spec)), None)
        if shared is not None and not self._compared(shared):
            return False
        if was_refused:
            self._store.note_not_apart()
        return True

    def _compared(self, shared: LaunchSpec) -> bool:
        """Whether this rig is like the first one, as often as it takes to know; False if asked to stop.

        Raises:
            RigError: It is not.
        """
        while True:
            own = _scores(self._own(shared))
            if not own:
                return True  # it does not run here; what the search says of that it says itself
            found = likeness(own, self._theirs(shared))
            if found.alike:
                return True
            if found.is_different:
                self._refuse(shared, found)
            why = f"reference, {len(own) + 1} of {ENOUGH}: this rig seems unlike"
            if self._measured(shared, why) is None:
                return False

    def _refuse(self, spec: LaunchSpec, found: Likeness) -> None:
        why = (
            f"{spec.label} makes {found.ratio:.1%} of what the study's first rig makes, beyond the noise of "
            f"{found.noise:.1%}"
        )
        self._store.note_apart(f"{self._worker.host}: {why}")
        raise RigError(
            f"this rig is not like the others of {self._store.place}: {why}. Its trials would not compare, so none "
            "was made. Look for another power limit, slot or load (tuner doctor), or make one with --per-rig-class"
        )

    def _measured(self, spec: LaunchSpec, why: str) -> TrialRecord | None:
        return self._run.measure(spec, why, SEARCHING)

    def _own(self, spec: LaunchSpec) -> list[TrialRecord]:
        return [
            record
            for record in self._references(spec)
            if record.worker == self._worker.id and record.number > self._refused_at
        ]

    def _first_measures(self) -> bool:
        return any(self._is_measured_first(spec) for spec in self._plan.references)

    def _is_measured_first(self, spec: LaunchSpec) -> bool:
        """Whether another rig began to measure it before this one did, and is in the middle of it."""
        rows = self._trusted(spec)
        first = next((one for one in rows if one.result is None or one.score is not None), None)
        return first is not None and first.result is None and first.worker != self._worker.id

    def _theirs(self, spec: LaunchSpec) -> list[float]:
        """What the first other rig measured of it; nothing where this one is the first."""
        measured = [record for record in self._trusted(spec) if record.score is not None]
        if not measured or measured[0].worker == self._worker.id:
            return []
        return _scores([record for record in measured if record.worker == measured[0].worker])

    def _trusted(self, spec: LaunchSpec) -> list[TrialRecord]:
        """Its launches on all rigs but those that are set apart."""
        apart = self._store.apart()
        return [record for record in self._references(spec) if record.worker not in apart]

    def _references(self, spec: LaunchSpec) -> list[TrialRecord]:
        return [
            record
            for record in self._store.every_record()
            if record.key == spec.key and record.errand.purpose is Purpose.SEARCH
        ]

    # --- proving

    def _prove(self, search: Ending) -> Ending:
        """Confirm the winner here; what another rig has begun of it does not compare, and is begun anew."""
        confirmation = self._store.confirmation()
        rates = self._plan.search.device_rates(self._store.records())
        self._store.note_rates({name: [rate.bytes_s, rate.sigma] for name, rate in rates.items()})
        if search != SEARCHED:
            confirmation = self._run.proving.begin(confirmation, search)
        if confirmation is not None and not confirmation.ended and self._is_anothers(confirmation):
            confirmation = replace(confirmation, round=confirmation.round + 1)
            self._store.note_confirmation(confirmation)
            self._progress.note("The proof is begun anew on this rig: launches of two rigs do not compare.")
        ending = self._run.proving.run(confirmation, search)
        if not ending.interrupted:
            budget = self._plan.budget
            self._store.note_ended(ending.why, (budget.seconds, budget.launches))
        return ending

    def _is_anothers(self, confirmation: Confirmation) -> bool:
        return any(
            record.worker != self._worker.id for record in launches_of(confirmation, self._store.records())
        )


def _scores(records: Sequence[TrialRecord]) -> list[float]:
    return [record.score for record in records if record.score is not None]
