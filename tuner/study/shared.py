"""A study that several workers on several machines work on: in a database, or behind Optuna's proxy of one.

Nobody holds a lock. A worker writes down what it is about to launch, looks at what was written before, and withdraws
where another one was first: the lowest number has it. What runs shows signs of life; whose signs stay away for a
lease is given up by whoever sees it first, and a result that comes all the same is added as a trial of its own.
While the storage is away a worker waits; what it has measured is on its own disk.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Self

from tuner.core.outcome import TrialState
from tuner.core.trial import SEARCHING
from tuner.errors import StudyError
from tuner.study.documents import DOCUMENT, Stored, ended_document, late_document, launch_document, template
from tuner.study.making import known_names, make, names_of
from tuner.study.rows import STATES
from tuner.study.shared_claims import ROLES, SharedClaims, unless_ended
from tuner.study.storages import open_storage, using
from tuner.study.trial_store import NOTHING_KEPT, Kept, Taken, always

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.trial import TrialState as OptunaState

    from tuner.core.launch import LaunchSpec
    from tuner.core.trial import Errand, TrialRecord
    from tuner.search.dimensions import Coordinate, Dimension
    from tuner.study.location import Location
    from tuner.study.making import Making


class SharedStore(SharedClaims):
    """The record of one study in a storage that several machines share.

    Args:
        location: Where it lies.
        name: The study's.
        storage: What is connected.
        worker: Who we are; None for readers.
        place_of: Where a candidate lies in the search space, for the sampler.
        wait: Is told why the storage cannot be used, and waits; says whether to go on.
    """

    # --- opening

    @classmethod
    def for_run(cls, location: Location, name: str, making: Making, **own: Any) -> Self:  # noqa: ANN401 - as __init__
        """Go on with a study, or make it.

        Raises:
            StudyError: The storage cannot be used, or it holds a study of that name made with something else.
        """
        storage = open_storage(location)
        with using(location):
            make(storage, name, making)
            store = cls(location, name, storage, **own)
        if differences := store.identity.differences(making.identity):
            raise StudyError(
                f"{store.place} was made with something else: {'; '.join(differences)}. "
                "Start a new study with --study NAME"
            )
        return store

    @classmethod
    def open(cls, location: Location, name: str, **own: Any) -> Self:  # noqa: ANN401 - as __init__
        """Open a study that exists.

        Raises:
            StudyError: There is none, or the storage cannot be used.
        """
        storage = open_storage(location, make=False)
        with using(location):
            try:
                return cls(location, name, storage, **own)
            except KeyError as error:
                raise StudyError(f"{location}: no study {name!r} there; {known_names(storage)}") from error

    @classmethod
    def every(cls, location: Location) -> tuple[list[Self], list[str]]:
        """All studies of a storage for readers, by name, and the names of those that this version cannot read.

        Raises:
            StudyError: The storage cannot be used.
        """
        storage = open_storage(location, make=False)
        found: list[Self] = []
        unreadable = []
        with using(location):
            for name in names_of(storage):
                try:
                    found.append(cls(location, name, storage))
                except (StudyError, KeyError):
                    unreadable.append(name)
        return found, unreadable

    # --- trials

    def begin(
        self,
        spec: LaunchSpec,
        place: Sequence[tuple[Dimension, Coordinate]],  # noqa: ARG002 - follows from the candidate
        *,
        argv: Sequence[str],
        environment: Mapping[str, str],
        errand: Errand = SEARCHING,
        still_wanted: Callable[[Sequence[TrialRecord]], bool] = always,
    ) -> int:
        """See `TrialStore.begin`."""
        token = uuid.uuid4().hex
        document = launch_document(
            spec, self._me, token, argv=argv, environment=environment, errand=errand, now_s=time.time()
        )
        mine, before = self._created(document, token)
        role = next((role for role, purposes in ROLES.items() if errand.purpose in purposes), None)
        if (role is not None and not self.holds(role)) or not still_wanted(self._counting(before)):
            self._withdraw(mine)
            raise Taken
        return mine.number

    def finish(self, record: TrialRecord, kept: Kept = NOTHING_KEPT) -> None:
        """See `TrialStore.finish`; what was given up meanwhile is added as a trial of its own, once."""
        result, state = record.result, record.state
        if result is None or state is None:
            raise StudyError(f"trial {record.number} has no result to record")
        mine = next((one for one in self.stored() if one.number == record.number), None)
        if mine is None:
            raise StudyError(f"{self.place}: trial {record.number} is not there")
        document = ended_document(mine.document, record, kept, now_s=time.time())
        value = record.score if state is TrialState.COMPLETE else None
        self._reach(lambda: self._finish(mine, document, STATES[state], value))
        self._pulse.let_go(mine.id)

    def _finish(
        self, mine: Stored, document: Mapping[str, Any], state: OptunaState, value: float | None
    ) -> None:
        def write() -> None:
            self._storage.set_trial_user_attr(mine.id, DOCUMENT, document)
            self._storage.set_trial_state_values(mine.id, state, None if value is None else [value])

        if mine.runs and unless_ended(write):
            return
        now = self.stored()
        stored = next(one for one in now if one.number == mine.number)
        there = any(one.late_for == mine.number and one.token == mine.token for one in now)
        if stored.has_result or there:
            return  # it had arrived, only the answer was lost
        late = template(state, late_document(document, mine.number), value)
        self._storage.create_new_trial(self._study_id, late)

    def unsettled(self) -> list[TrialRecord]:
        """Our own that run, and those that were given up while we could not say how they ended."""
        stored = self.stored()
        late = {one.late_for for one in stored}
        return [
            self._record(one)
            for one in stored
            if one.is_launch
            and one.worker.id == self._me.id
            and (one.runs or (one.is_lost and one.number not in late))
        ]
