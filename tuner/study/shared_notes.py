"""A shared study as a whole: the way to it, what it was made with, and notes on it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tuner.core.memory.words import NotLaunched
from tuner.errors import StudyError
from tuner.study.leases import Watch
from tuner.study.making import FIXED, LEASE, PARENT, PER_CLASS, UID, check_version
from tuner.study.storages import first_line, is_of_storage
from tuner.study.trial_store import ESTIMATES, NOT_LAUNCHED, TrialStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.storages import BaseStorage

    from tuner.core.memory.learned import Observation
    from tuner.study.documents import Worker
    from tuner.study.location import Location

_APART, _ENDED, _RATES, _RUN = "apart ", "ended", "rates", "run"
#: How often what only readers need is written at most.
_NOTES_EVERY_S = 60.0
_RETRY_S = 2.0

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Ended:
    """A study that is complete."""

    why: str
    budget: tuple[float | None, int | None]
    """Seconds and launches that it could use; with more of them it goes on."""


def no_patience(_why: str, _seconds: float) -> bool:
    """For readers, who do not wait for a storage that is away."""
    return False


class SharedNotes(TrialStore):
    """All of a shared study but its trials; see `SharedStore`."""

    def __init__(
        self,
        location: Location,
        name: str,
        storage: BaseStorage,
        *,
        worker: Worker | None = None,
        wait: Callable[[str, float], bool] = no_patience,
    ) -> None:
        self._location = location
        self.name = name
        self._storage = storage
        self._worker = worker
        self._wait = wait
        self._study_id = storage.get_study_id_from_name(name)
        notes = storage.get_study_user_attrs(self._study_id)
        check_version(f"{location} {name}", notes)
        self._fixed = {key: notes.get(key) for key in FIXED}
        self._goal = self.goal
        self._estimates: Mapping[int, float] = {
            int(number): one for number, one in (notes.get(ESTIMATES) or {}).items()
        }
        self._unwritten: dict[str, Any] = {}
        self._written_s = time.monotonic()
        self._watch = Watch(self.lease_s)

    @property
    def place(self) -> str:
        """The storage and the study's name."""
        return f"{self._location} {self.name}"

    @property
    def lease_s(self) -> float:
        """For how long nothing may be heard of a worker before its trial is given up."""
        return float(self._fixed[LEASE] or 0.0)

    @property
    def uid(self) -> str:
        """What tells it from another study of the same name."""
        return str(self._fixed[UID])

    @property
    def per_rig_class(self) -> bool:
        """Whether rigs of another class get a study of their own beside it."""
        return bool(self._fixed[PER_CLASS])

    @property
    def parent(self) -> str | None:
        """The study that it was made beside; None for one of its own."""
        found: str | None = self._fixed[PARENT]
        return found

    # --- notes

    def _note(self, name: str) -> Any:  # noqa: ANN401 - plain JSON
        if name in self._fixed:
            return self._fixed[name]
        return self._notes().get(name)

    def _notes(self) -> Mapping[str, Any]:
        return self._reach(lambda: self._storage.get_study_user_attrs(self._study_id))

    def _set_note(self, name: str, value: Any) -> None:  # noqa: ANN401 - as above
        self._reach(lambda: self._storage.set_study_user_attr(self._study_id, name, value))

    def note_estimates(self, estimates_tok_s: Mapping[int, float]) -> None:
        """See `TrialStore.note_estimates`; readers see it within a minute."""
        self._estimates = dict(estimates_tok_s)
        self._unwritten[ESTIMATES] = {str(number): one for number, one in estimates_tok_s.items()}
        self._write_notes()

    def note_not_launched(self, rows: Sequence[NotLaunched]) -> None:
        """See `TrialStore.note_not_launched`; each worker has its own."""
        self._unwritten[f"{NOT_LAUNCHED} {self._me.id}"] = [row.to_json() for row in rows]
        self._write_notes()

    def not_launched(self) -> tuple[NotLaunched, ...]:
        """What any worker has not launched because it cannot fit."""
        notes = {**self._notes(), **self._unwritten}
        rows = [row for name, found in notes.items() if name.startswith(NOT_LAUNCHED) for row in found]
        every = [NotLaunched.from_json(row) for row in rows]
        return tuple({one.key: one for one in every}.values())

    def _write_notes(self, *, force: bool = False) -> None:
        now_s = time.monotonic()
        if not self._unwritten or (not force and now_s - self._written_s < _NOTES_EVERY_S):
            return
        for name, value in self._unwritten.items():
            self._set_note(name, value)
        self._unwritten.clear()
        self._written_s = now_s

    def memory_before(self, known: Sequence[Observation]) -> tuple[Observation, ...]:
        """What each worker knows of its own rig; what the study's trials teach all workers learn from these."""
        return tuple(known)

    def note_rates(self, rates: Mapping[str, Any]) -> None:
        """What a decode step reaches of each device, by name, for studies of other rigs."""
        self._unwritten[_RATES] = dict(rates)
        self._write_notes()

    def rates(self) -> Mapping[str, Any]:
        """As it was noted; empty before."""
        return dict(self._note(_RATES) or {})

    def note_run(self, options: Mapping[str, Any]) -> None:
        """How much the study may use, and how its winner is proved: the same for all workers."""
        self._set_note(_RUN, dict(options))

    def run_options(self) -> Mapping[str, Any]:
        """As it was noted."""
        return dict(self._note(_RUN) or {})

    def note_apart(self, why: str) -> None:
        """Our rig is not like the others': what it measured is not mixed in."""
        self._set_note(f"{_APART}{self._me.id}", why)

    def note_not_apart(self) -> None:
        """Our rig is like the others' after all."""
        self._set_note(f"{_APART}{self._me.id}", None)

    def apart(self) -> Mapping[str, str]:
        """Workers whose rigs measure something else, and why, by their id."""
        return {
            name.removeprefix(_APART): why
            for name, why in self._notes().items()
            if name.startswith(_APART) and why is not None
        }

    def _note_ended(self, why: str, budget: tuple[float | None, int | None]) -> None:
        self._write_notes(force=True)
        self._set_note(_ENDED, [why, *budget])

    def ended(self) -> Ended | None:
        """Why the study is complete; None where it is not."""
        row = self._note(_ENDED)
        return None if row is None else Ended(row[0], (row[1], row[2]))

    # --- the way to the storage

    @property
    def _me(self) -> Worker:
        if self._worker is None:
            raise AssertionError("only workers write")
        return self._worker

    def _reach(self, action: Callable[[], _Answer]) -> _Answer:
        """Do something with the storage; while it is away, wait and do it again.

        Raises:
            StudyError: Nobody waits any more, or the study is gone.
        """
        while True:
            try:
                answer = action()
            except KeyError as error:
                raise StudyError(f"{self.place}: the study is not there any more") from error
            except Exception as error:
                if not is_of_storage(error):
                    raise
                self._watch.forget()
                why = f"{self._location} cannot be used: {first_line(error)}"
                if not self._wait(why, _RETRY_S):
                    raise StudyError(
                        f"{why}. What was measured is kept; run the same command again when it is back"
                    ) from error
                continue
            return answer
