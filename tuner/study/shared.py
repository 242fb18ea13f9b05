"""A study that several workers on several machines work on: in a database, or behind Optuna's proxy of one.

Nobody holds a lock. A worker writes down what it is about to launch, looks at what was written before, and withdraws
where another one was first: the lowest number has it. What runs shows signs of life; whose signs stay away for a
lease is given up by whoever sees it first, and a result that comes all the same is added as a trial of its own.
While the storage is away a worker waits; what it has measured is on its own disk.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import optuna
from optuna.study import StudyDirection
from optuna.trial import TrialState as OptunaState
from optuna.trial import create_trial

from tuner.core.memory.words import NotLaunched
from tuner.core.outcome import TrialState
from tuner.core.trial import SEARCHING, Purpose
from tuner.errors import StudyError
from tuner.study.documents import (
    DOCUMENT,
    Stored,
    Worker,
    ended_document,
    late_document,
    launch_document,
    role_document,
    template,
    withdrawn_document,
)
from tuner.study.leases import Watch
from tuner.study.rows import STATES
from tuner.study.sampler import USABLE, TpeSampler, distribution_of, mixed
from tuner.study.signs import Pulse, signs_of
from tuner.study.storages import first_line, is_of_storage, open_storage
from tuner.study.trial_store import (
    ESTIMATES,
    FACTS,
    FORMAT,
    IDENTITY,
    NOT_LAUNCHED,
    NOTHING_KEPT,
    Kept,
    Taken,
    TrialStore,
    always,
)
from tuner.study.workers import Part, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from tuner.core.candidate import Candidate
    from tuner.core.identity import StudyIdentity
    from tuner.core.launch import LaunchSpec
    from tuner.core.memory.learned import Observation
    from tuner.core.trial import Errand, TrialRecord
    from tuner.search.confirmation.state import Confirmation
    from tuner.search.dimensions import Coordinate, Dimension
    from tuner.study.location import Location

#: Version of what is stored; a study of another one is not read.
SHARED_FORMAT = "machines-1"
#: What one worker does for all once the search is over.
PROVING = "proving"
_ROLES = {PROVING: frozenset({Purpose.CONFIRM, Purpose.SOAK, Purpose.ENDURE})}
_LEASE, _UID, _PARENT, _APART, _ENDED = "lease_s", "uid", "parent", "apart ", "ended"
_RATES, _RUN, _PER_CLASS = "rates", "run", "per_rig_class"
#: Signs of life a lease.
_SIGNS_A_LEASE = 5
#: How often what only readers need is written at most.
_NOTES_EVERY_S = 60.0
_RETRY_S = 2.0
#: After so long, who was making a study has died.
_MAKING_S = 5.0

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Making:
    """What a new study is made with."""

    identity: StudyIdentity
    facts: Mapping[str, Any]
    lease_s: float
    parent: str | None = None
    """The study that it is made beside, for another class of rigs."""
    per_rig_class: bool = False
    """Whether rigs of another class get a study of their own beside it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A study that is complete."""

    why: str
    budget: tuple[float | None, int | None]
    """Seconds and launches that it could use; with more of them it goes on."""


def no_place(_candidate: Candidate) -> Sequence[tuple[Dimension, Coordinate]]:
    """For readers, who ask for no proposals."""
    return ()


def no_patience(_why: str, _seconds: float) -> bool:
    """For readers, who do not wait for a storage that is away."""
    return False


class SharedStore(TrialStore):
    """The record of one study in a storage that several machines share.

    Args:
        location: Where it lies.
        name: The study's.
        storage: What is connected.
        worker: Who we are; None for readers.
        place_of: Where a candidate lies in the search space, for the sampler.
        wait: Is told why the storage cannot be used, and waits; says whether to go on.
    """

    def __init__(
        self,
        location: Location,
        name: str,
        storage: BaseStorage,
        *,
        worker: Worker | None = None,
        place_of: Callable[[Candidate], Sequence[tuple[Dimension, Coordinate]]] = no_place,
        wait: Callable[[str, float], bool] = no_patience,
    ) -> None:
        self._location = location
        self.name = name
        self._storage = storage
        self._worker = worker
        self._place_of = place_of
        self._wait = wait
        self._study_id = storage.get_study_id_from_name(name)
        notes = storage.get_study_user_attrs(self._study_id)
        _check_version(f"{location} {name}", notes)
        self._fixed = {key: notes.get(key) for key in (IDENTITY, FACTS, _LEASE, _UID, _PARENT, _PER_CLASS)}
        self._goal = self.goal
        self._known: dict[int, TrialRecord] = {}
        self._ended_trials: dict[int, Stored] = {}
        self._estimates: Mapping[int, float] = {
            int(number): one for number, one in (notes.get(ESTIMATES) or {}).items()
        }
        self._unwritten: dict[str, Any] = {}
        self._written_s = time.monotonic()
        self._watch = Watch(self.lease_s)
        self._signs = signs_of(storage, self._study_id, "" if worker is None else worker.id)
        self._pulse = Pulse(self._signs, self.lease_s / _SIGNS_A_LEASE, self._watch.forget)
        self._roles: dict[str, tuple[int, str]] = {}

    # --- opening

    @classmethod
    def for_run(cls, location: Location, name: str, making: Making, **own: Any) -> Self:  # noqa: ANN401 - as __init__
        """Go on with a study, or make it.

        Raises:
            StudyError: The storage cannot be used, or it holds a study of that name made with something else.
        """
        storage = open_storage(location)
        try:
            _make(storage, name, making)
            store = cls(location, name, storage, **own)
        except Exception as error:
            if is_of_storage(error):
                raise StudyError(f"{location} cannot be used: {first_line(error)}") from error
            raise
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
        try:
            return cls(location, name, storage, **own)
        except KeyError as error:
            raise StudyError(f"{location}: no study {name!r} there; {_known_names(storage)}") from error
        except Exception as error:
            if is_of_storage(error):
                raise StudyError(f"{location} cannot be used: {first_line(error)}") from error
            raise

    @classmethod
    def every(cls, location: Location) -> tuple[list[Self], list[str]]:
        """All studies of a storage for readers, by name, and the names of those that this version cannot read.

        Raises:
            StudyError: The storage cannot be used.
        """
        storage = open_storage(location, make=False)
        try:
            found: list[Self] = []
            unreadable = []
            for name in _names(storage):
                try:
                    found.append(cls(location, name, storage))
                except (StudyError, KeyError):
                    unreadable.append(name)
        except Exception as error:
            if is_of_storage(error):
                raise StudyError(f"{location} cannot be used: {first_line(error)}") from error
            raise
        return found, unreadable

    def close(self) -> None:
        """Write what is left to write, and show no signs of life any more; it can be read all the same."""
        with contextlib.suppress(StudyError):  # they are for readers alone, and nobody waits any more
            self._write_notes(force=True)
        self._pulse.stop()

    @property
    def place(self) -> str:
        """The storage and the study's name."""
        return f"{self._location} {self.name}"

    @property
    def lease_s(self) -> float:
        """For how long nothing may be heard of a worker before its trial is given up."""
        return float(self._fixed[_LEASE] or 0.0)

    @property
    def uid(self) -> str:
        """What tells it from another study of the same name."""
        return str(self._fixed[_UID])

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

    @property
    def per_rig_class(self) -> bool:
        """Whether rigs of another class get a study of their own beside it."""
        return bool(self._fixed[_PER_CLASS])

    @property
    def parent(self) -> str | None:
        """The study that it was made beside; None for one of its own."""
        found: str | None = self._fixed[_PARENT]
        return found

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
        self._write_notes(force=True)
        self._set_note(_ENDED, [why, *budget])

    def _check_proves(self) -> None:
        if not self.holds(PROVING):
            raise Taken

    def ended(self) -> Ended | None:
        """Why the study is complete; None where it is not."""
        row = self._note(_ENDED)
        return None if row is None else Ended(row[0], (row[1], row[2]))

    # --- trials

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
        role = next((role for role, purposes in _ROLES.items() if errand.purpose in purposes), None)
        if (role is not None and not self.holds(role)) or not still_wanted(self._counting(before)):
            self._withdraw(mine)
            raise Taken
        return mine.number

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
        self._reach(lambda: _unless_ended(write))

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

        if mine.runs and _unless_ended(write):
            return
        now = self.stored()
        stored = next(one for one in now if one.number == mine.number)
        there = any(one.late_for == mine.number and one.token == mine.token for one in now)
        if stored.has_result or there:
            return  # it had arrived, only the answer was lost
        late = template(state, late_document(document, mine.number), value)
        self._storage.create_new_trial(self._study_id, late)

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
            place = self._place_of(record.candidate)
            state = OptunaState.RUNNING if record.state is None else STATES[record.state]
            trial = create_trial(
                state=state,
                value=record.score if state is OptunaState.COMPLETE else None,
                params={dimension.name: value for dimension, value in place},
                distributions={dimension.name: distribution_of(dimension) for dimension, _ in place},
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
                lambda one=trial_id: _unless_ended(  # type: ignore[misc]  # of the loop's own turn
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
            lambda: _unless_ended(lambda: self._storage.set_trial_state_values(held[0], OptunaState.FAIL))
        )

    # --- for readers

    def kept(self) -> Mapping[int, Kept]:
        """What there is of the folder of each launch, by number."""
        return {one.number: one.kept() for one in self.stored() if one.is_launch}

    def workers(self) -> tuple[Part, ...]:
        """Who takes part, and what each has done, who began first first."""
        stored = self.stored()
        quiet_s = self._reach(lambda: self._signs.quiet_s([one for one in stored if one.runs]))
        return parts_of(stored, self._goal, apart=self.apart(), quiet_s=quiet_s, lease_s=self.lease_s)

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


def _make(storage: BaseStorage, name: str, making: Making) -> None:
    """Make a study, or finish making one."""
    try:
        study_id = storage.create_new_study([StudyDirection.MAXIMIZE], study_name=name)
    except optuna.exceptions.DuplicatedStudyError:
        study_id = storage.get_study_id_from_name(name)
        end_s = time.monotonic() + _MAKING_S  # two that made one would give it two identities
        while FORMAT not in storage.get_study_user_attrs(study_id) and time.monotonic() < end_s:
            time.sleep(_MAKING_S / 50)
    if FORMAT in storage.get_study_user_attrs(study_id):
        return
    for key, value in (
        (FACTS, dict(making.facts)),
        (IDENTITY, making.identity.to_json()),
        (_LEASE, making.lease_s),
        (_UID, uuid.uuid4().hex),
        (_PARENT, making.parent),
        (_PER_CLASS, making.per_rig_class),
        (FORMAT, SHARED_FORMAT),
    ):
        storage.set_study_user_attr(study_id, key, value)


def _check_version(place: str, notes: Mapping[str, Any]) -> None:
    version = notes.get(FORMAT)
    if version != SHARED_FORMAT:
        raise StudyError(f"{place}: format {version}, this version of the tuner reads {SHARED_FORMAT}")


def _known_names(storage: BaseStorage) -> str:
    names = _names(storage)
    return f"studies: {', '.join(names)}" if names else "it holds no study"


def _names(storage: BaseStorage) -> list[str]:
    return sorted(study.study_name for study in storage.get_all_studies())


def _unless_ended(write: Callable[[], object]) -> bool:
    """Whether a trial could be written to; not where it has ended meanwhile."""
    try:
        write()
    except optuna.exceptions.UpdateFinishedTrialError:
        return False
    return True
