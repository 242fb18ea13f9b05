"""The trials of a shared study as they are read: each worker sees the references of its own rig alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState as OptunaState
from optuna.trial import create_trial

from tuner.core.trial import SEARCHING, Purpose
from tuner.study.documents import Stored
from tuner.study.rows import STATES
from tuner.study.sampler import USABLE, TpeSampler, mixed, placed
from tuner.study.shared_notes import SharedNotes
from tuner.study.signs import signs_of
from tuner.study.workers import Part, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from tuner.core.candidate import Candidate
    from tuner.core.trial import TrialRecord
    from tuner.search.dimensions import Coordinate, Dimension
    from tuner.study.location import Location
    from tuner.study.trial_store import Kept


def no_place(_candidate: Candidate) -> Sequence[tuple[Dimension, Coordinate]]:
    """For readers, who ask for no proposals."""
    return ()


class SharedView(SharedNotes):
    """What can be read of a shared study; see `SharedStore`."""

    def __init__(
        self,
        location: Location,
        name: str,
        storage: BaseStorage,
        *,
        place_of: Callable[[Candidate], Sequence[tuple[Dimension, Coordinate]]] = no_place,
        **own: Any,  # noqa: ANN401 - as SharedNotes
    ) -> None:
        super().__init__(location, name, storage, **own)
        self._place_of = place_of
        self._known: dict[int, TrialRecord] = {}
        self._ended_trials: dict[int, Stored] = {}
        self._signs = signs_of(storage, self._study_id, "" if self._worker is None else self._worker.id)

    def _trials(self) -> Sequence[FrozenTrial]:
        return self._reach(lambda: self._storage.get_all_trials(self._study_id, deepcopy=False))

    def stored(self) -> list[Stored]:
        """All trials as they are in the storage, what was withdrawn too."""
        return self._seen(self._trials())

    def _seen(self, trials: Iterable[FrozenTrial]) -> list[Stored]:
        """Those that have ended are read once: they do not change any more."""
        found = []
        for trial in trials:
            one = self._ended_trials.get(trial.number)
            if one is None:
                one = Stored(trial)
                if not one.runs:
                    self._ended_trials[trial.number] = one
            found.append(one)
        return found

    def records(self) -> list[TrialRecord]:
        """All trials that count here, in order: those of the references that were made on our own rig alone."""
        return self._counting(self.stored())

    def _counting(self, stored: Iterable[Stored]) -> list[TrialRecord]:
        launches = [one for one in stored if one.is_launch]
        own = None if self._worker is None else self._worker.id
        if not any(one.is_reference and one.worker.id == own for one in launches):
            own = self._home(launches)
        return [
            self._record(one)
            for one in launches
            if not one.is_reference or one.worker.id == own or one.purpose is not Purpose.SEARCH
        ]

    def _home(self, launches: Sequence[Stored]) -> str | None:
        """Whose references readers see: of who has proved the winner, else of who was first."""
        for one in reversed(launches):
            if one.purpose is Purpose.CONFIRM:
                return one.worker.id
        return launches[0].worker.id if launches else None

    def every_record(self) -> list[TrialRecord]:
        """All launches, every worker's references among them."""
        return [self._record(one) for one in self.stored() if one.is_launch]

    def _record(self, one: Stored) -> TrialRecord:
        known = self._known.get(one.number)
        if known is None:
            known = one.record(self._goal)
            if not one.runs:
                self._known[one.number] = known
        estimate = self._estimates.get(one.number)
        return known if estimate == known.estimate_tok_s else replace(known, estimate_tok_s=estimate)

    def used_s(self) -> float:
        """Seconds that the busiest worker has used: they work side by side."""
        used: dict[str | None, float] = {}
        for record in self.every_record():
            used[record.worker] = used.get(record.worker, 0.0) + record.wall_s
        return max(used.values(), default=0.0)

    def sampler(self, seed: int) -> TpeSampler:
        """TPE over what all workers have launched; of what runs it knows that it does.

        Each worker draws otherwise: two that ask at the same moment would be told the same.
        """
        trials = []
        for record in self.records():
            if record.candidate is None or record.errand != SEARCHING:
                continue
            state = OptunaState.RUNNING if record.state is None else STATES[record.state]
            trial = create_trial(
                state=state,
                value=record.score if state is OptunaState.COMPLETE else None,
                **placed(self._place_of(record.candidate)),
                constraints=(
                    {USABLE: 0.0 if record.may_win else 1.0}
                    if state in {OptunaState.COMPLETE, OptunaState.PRUNED}
                    else None
                ),
            )
            trials.append(trial)
        return TpeSampler(trials, seed=mixed(seed, self._me.id))

    def clock(self) -> dict[int, tuple[float, float | None]]:
        """See `TrialStore.clock`; by the workers' clocks."""
        return {
            one.number: times for one in self.stored() if one.is_launch and (times := one.clock) is not None
        }

    def kept(self) -> Mapping[int, Kept]:
        """What there is of the folder of each launch, by number."""
        return {one.number: one.kept() for one in self.stored() if one.is_launch}

    def workers(self) -> tuple[Part, ...]:
        """Who takes part, and what each has done, who began first first."""
        stored = self.stored()
        quiet_s = self._reach(lambda: self._signs.quiet_s([one for one in stored if one.runs]))
        return parts_of(stored, self._goal, apart=self.apart(), quiet_s=quiet_s, lease_s=self.lease_s)
