"""Who does what in a shared study: launches and roles that one worker has, as long as it shows signs of life."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import TrialState as OptunaState

from tuner.core.trial import Purpose
from tuner.errors import StudyError
from tuner.study.documents import DOCUMENT, Stored, role_document, template, withdrawn_document
from tuner.study.shared_view import SharedView
from tuner.study.signs import Pulse
from tuner.study.trial_store import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.storages import BaseStorage

    from tuner.search.confirmation.state import Confirmation
    from tuner.study.location import Location

#: What one worker does for all once the search is over.
PROVING = "proving"
ROLES = {PROVING: frozenset({Purpose.CONFIRM, Purpose.SOAK, Purpose.ENDURE})}
#: Signs of life a lease.
_SIGNS_A_LEASE = 5


class SharedClaims(SharedView):
    """Claims to launches and roles; see `SharedStore`."""

    def __init__(
        self,
        location: Location,
        name: str,
        storage: BaseStorage,
        **own: Any,  # noqa: ANN401 - as SharedView
    ) -> None:
        super().__init__(location, name, storage, **own)
        self._pulse = Pulse(self._signs, self.lease_s / _SIGNS_A_LEASE, self._watch.forget)
        self._roles: dict[str, tuple[int, str]] = {}

    def close(self) -> None:
        """Write what is left to write, and show no signs of life any more; it can be read all the same."""
        with contextlib.suppress(StudyError):  # they are for readers alone, and nobody waits any more
            self._write_notes(force=True)
        self._pulse.stop()

    # --- trials that are begun

    def _created(self, document: Mapping[str, Any], token: str) -> tuple[Stored, list[Stored]]:
        """A running trial, made once whatever happens on the way, and those that were begun before it."""
        tried: list[bool] = []

        def create() -> tuple[Stored, list[Stored]]:
            if not tried or self._with_token(token)[0] is None:
                tried.append(True)  # if the answer is lost, it may be there all the same
                self._storage.create_new_trial(self._study_id, template(OptunaState.RUNNING, document))
            mine, trials = self._with_token(token)
            assert mine is not None  # noqa: S101 - for the type checker: it was made
            self._signs.show(mine.id)
            return mine, [one for one in trials if one.number < mine.number]

        mine, before = self._reach(create)
        self._pulse.hold(mine.id)
        return mine, before

    def _with_token(self, token: str) -> tuple[Stored | None, list[Stored]]:
        """The first trial that an attempt of ours has made, and all trials."""
        trials = self._seen(self._storage.get_all_trials(self._study_id, deepcopy=False))
        mine = [one for one in trials if one.token == token]
        return (mine[0] if mine else None), trials

    def _withdraw(self, mine: Stored) -> None:
        def write() -> None:
            self._storage.set_trial_user_attr(mine.id, DOCUMENT, withdrawn_document(mine.document))
            self._storage.set_trial_state_values(mine.id, OptunaState.FAIL)

        self._pulse.let_go(mine.id)
        self._reach(lambda: unless_ended(write))

    # --- roles

    def take(self, role: str) -> bool:
        """Do something for all, unless another worker does; the first to say so has it."""
        if self.holds(role):
            return True
        self.look_after_others()
        if any(one.role == role and one.runs for one in self.stored()):
            return False  # who stands by asks often, and leaves nothing behind
        token = uuid.uuid4().hex
        mine, before = self._created(role_document(role, self._me, token), token)
        if any(one.role == role and one.runs for one in before):
            self._withdraw(mine)
            return False
        self._roles[role] = (mine.id, token)
        return True

    def is_taken(self, role: str) -> bool:
        """Whether another worker does that."""
        return any(one.role == role and one.runs and one.worker.id != self._me.id for one in self.stored())

    def holds(self, role: str) -> bool:
        """Whether we still have it: who is silent for a lease loses it."""
        held = self._roles.get(role)
        if held is None:
            return False
        if any(one.token == held[1] and one.runs for one in self.stored()):
            return True
        self._pulse.let_go(held[0])
        del self._roles[role]
        return False

    def give_back(self, role: str) -> None:
        """Do it no more."""
        held = self._roles.pop(role, None)
        if held is None:
            return
        self._pulse.let_go(held[0])
        self._reach(
            lambda: unless_ended(lambda: self._storage.set_trial_state_values(held[0], OptunaState.FAIL))
        )

    def note_confirmation(self, confirmation: Confirmation) -> None:
        """See `TrialStore.note_confirmation`.

        Raises:
            Taken: Another worker goes on with the proof.
        """
        self._check_proves()
        super().note_confirmation(confirmation)

    def note_ended(self, why: str, budget: tuple[float | None, int | None]) -> None:
        """The study is complete: why, and the seconds and launches that it could use.

        Raises:
            Taken: Another worker goes on with the proof.
        """
        self._check_proves()
        self._note_ended(why, budget)

    def _check_proves(self) -> None:
        if not self.holds(PROVING):
            raise Taken

    # --- others

    def look_after_others(self) -> None:
        """Give up what nothing was heard of for a lease, and what a killed run of our own has left."""
        stored = self.stored()
        for one in stored:
            if self._is_leftover(one, stored):
                self._withdraw(one)
        running = [one for one in stored if one.runs and one.worker.id != self._me.id]
        signs = self._reach(lambda: self._signs.of(running))
        for trial_id in self._watch.expired(signs, time.monotonic()):
            self._reach(
                lambda one=trial_id: unless_ended(  # type: ignore[misc]  # of the loop's own turn
                    lambda: self._storage.set_trial_state_values(one, OptunaState.FAIL)
                )
            )

    def _is_leftover(self, one: Stored, stored: Sequence[Stored]) -> bool:
        """Whether it is ours and nobody works on it: a role, a withdrawal cut off, a launch made twice."""
        if not one.runs or one.worker.id != self._me.id or self._pulse.holds(one.id):
            return False
        return not one.is_launch or any(two.token == one.token and two.id < one.id for two in stored)

    def others_search(self) -> bool:
        """Whether another worker is in a launch of the search."""
        return any(
            one.runs and one.is_launch and one.purpose is Purpose.SEARCH and one.worker.id != self._me.id
            for one in self.stored()
        )


def unless_ended(write: Callable[[], object]) -> bool:
    """Whether a trial could be written to; not where it has ended meanwhile."""
    try:
        write()
    except optuna.exceptions.UpdateFinishedTrialError:
        return False
    return True
