"""The study: Optuna's storage as the record of what was tried, Optuna's samplers as a source of proposals.

The only module that knows Optuna. The record holds launched trials alone. Proposals are drawn in a throw-away
study in memory that is filled from the record each time, with a generator seeded by (seed, trials so far): so
a resumed study proposes what an uninterrupted one would have, refused proposals leave no trace, and a trial
that a killed tuner left RUNNING is not counted by anyone.
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

import optuna
import sqlalchemy.exc
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial, create_trial
from optuna.trial import TrialState as OptunaState

from tuner.core.candidate import Candidate
from tuner.core.identity import StudyIdentity
from tuner.core.launch import LaunchResult
from tuner.core.memory.learned import Observation
from tuner.core.memory.words import NotLaunched
from tuner.core.objective import Goal
from tuner.core.outcome import TrialState
from tuner.core.trial import SEARCHING, Errand, Purpose, TrialRecord
from tuner.errors import StudyError
from tuner.search.confirmation.state import Confirmation
from tuner.search.dimensions import Categorical, Coordinate, Dimension, Integer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tuner.core.launch import LaunchSpec

_IDENTITY, _CANDIDATE, _REFERENCE, _RESULT, _WALL = "identity", "candidate", "reference", "result", "wall_s"
_FACTS, _ARGV, _ENVIRONMENT = "facts", "argv", "environment"
_NOT_LAUNCHED, _ESTIMATES, _MEMORY_BEFORE = "not_launched", "estimates", "memory_before"
_ERRAND, _CONFIRMATION, _CANARY = "errand", "confirmation", "canary"
_FORMAT = "format"
_SQLITE_MAGIC = b"SQLite format 3\0"
_UNREADABLE = (optuna.exceptions.OptunaError, sqlalchemy.exc.SQLAlchemyError, RuntimeError)
#: Version of what the attributes hold; a study of another one is not read.
STUDY_FORMAT = 1
#: Constraint of a trial: above 0 where the candidate cannot be used.
_USABLE = "usable"
optuna.logging.set_verbosity(optuna.logging.ERROR)  # what is worth saying the tuner says itself
_STATES = {
    TrialState.COMPLETE: OptunaState.COMPLETE,
    TrialState.PRUNED: OptunaState.PRUNED,
    TrialState.FAIL: OptunaState.FAIL,
}
#: Random proposals before TPE has enough to go by.
STARTUP_TRIALS = 8


class StudyStore:
    """The record of one study in `study.db` of its folder."""

    def __init__(self, path: Path, study: optuna.Study) -> None:
        self.path = path
        self._study = study
        self._storage = study._storage  # noqa: SLF001 - the only way to make a RUNNING trial in one commit
        self._study_id = study._study_id  # noqa: SLF001 - as above

    @classmethod
    def for_run(cls, path: Path, identity: StudyIdentity, facts: Mapping[str, Any]) -> Self:
        """Go on with the study in that database, or make it.

        Args:
            path: Of the database; its folder exists.
            identity: What it is made with.
            facts: What readers of a new study need to know beside its trials; plain JSON.

        Raises:
            StudyError: The database cannot be made or read, or it holds a study made with something else.
        """
        _check_format(path)
        try:
            storage = _storage(path)
            names = optuna.get_all_study_names(storage)
            study = optuna.create_study(
                study_name=names[0] if names else path.parent.name,  # a folder may be renamed
                storage=storage,
                direction="maximize",
                load_if_exists=True,
            )
            if _FORMAT not in study.user_attrs:  # new, or its tuner was killed while it made it
                study.set_user_attr(_FACTS, dict(facts))
                study.set_user_attr(_IDENTITY, identity.to_json())
                study.set_user_attr(_FORMAT, STUDY_FORMAT)
        except _UNREADABLE as error:
            raise StudyError(f"{path} cannot be made or read: {_first_line(error)}") from error
        store = cls(path, study)
        store._check_version()
        if differences := store.identity.differences(identity):
            raise StudyError(
                f"{path.parent} was made with something else: {'; '.join(differences)}. "
                "Start a new study with --study NAME"
            )
        return store

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a study that exists.

        Raises:
            StudyError: There is none, or it cannot be read.
        """
        if not path.is_file():
            raise StudyError(f"{path.parent}: no study there (no {path.name})")
        _check_format(path)
        try:
            store = cls(path, optuna.load_study(study_name=None, storage=_storage(path)))
        except (*_UNREADABLE, KeyError, ValueError) as error:
            raise StudyError(
                f"{path} cannot be read as a study: {_first_line(error)}; move it away to start anew"
            ) from error
        store._check_version()
        return store

    def _check_version(self) -> None:
        version = self._study.user_attrs.get(_FORMAT)
        if version != STUDY_FORMAT:
            raise StudyError(f"{self.path}: format {version}, this version of the tuner reads {STUDY_FORMAT}")

    @property
    def identity(self) -> StudyIdentity:
        """What the study was made with."""
        return StudyIdentity.from_json(self._study.user_attrs.get(_IDENTITY, {}))

    @property
    def facts(self) -> Mapping[str, Any]:
        """What readers of the study need to know beside its trials."""
        return cast("Mapping[str, Any]", self._study.user_attrs[_FACTS])

    def begin(
        self,
        spec: LaunchSpec,
        place: Sequence[tuple[Dimension, Coordinate]],
        *,
        argv: Sequence[str],
        environment: Mapping[str, str],
        errand: Errand = SEARCHING,
    ) -> int:
        """Record that a trial is about to be launched, in one commit.

        Args:
            spec: What is launched.
            place: Where it lies in the search space; empty for a reference.
            argv: The command as a user would run it.
            environment: Environment variables that belong to the command.
            errand: What it is launched for.

        Returns:
            Its number.
        """
        attributes: dict[str, Any] = {
            _REFERENCE: spec.reference,
            _ARGV: list(argv),
            _ENVIRONMENT: dict(environment),
        }
        if spec.candidate is not None:
            attributes[_CANDIDATE] = spec.candidate.to_json()
        if errand != SEARCHING:
            attributes[_ERRAND] = [errand.purpose.value, errand.round, errand.block]
        template = create_trial(
            state=OptunaState.RUNNING,
            params={dimension.name: value for dimension, value in place},
            distributions={dimension.name: _distribution(dimension) for dimension, _ in place},
            user_attrs=attributes,
        )
        with self._writing():
            trial_id = self._storage.create_new_trial(self._study_id, template)
            return self._storage.get_trial_number_from_id(trial_id)

    def finish(self, record: TrialRecord) -> None:
        """Record how a trial ended.

        Raises:
            StudyError: It has ended already, or the record has no result.
        """
        result, state = record.result, record.state
        if result is None or state is None:
            raise StudyError(f"trial {record.number} has no result to record")
        stored = next((t for t in self._study.get_trials(deepcopy=False) if t.number == record.number), None)
        if stored is None or stored.state is not OptunaState.RUNNING:
            raise StudyError(
                f"trial {record.number} is not running: its result is recorded already, or it never was"
            )
        trial = Trial(self._study, stored._trial_id)  # noqa: SLF001 - tell() takes numbers, attributes need the id
        document = result.without_text().to_json()  # answers stay in the trial's folder, if anywhere
        with self._writing():
            trial.set_user_attr(_RESULT, document)
            trial.set_user_attr(_WALL, record.wall_s)
            if state is not TrialState.FAIL and _USABLE not in trial.constraints:
                trial.set_constraint(_USABLE, 0.0 if record.may_win else 1.0)
            value = record.score if state is TrialState.COMPLETE else None
            self._study.tell(record.number, value, state=_STATES[state])

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A full or failing disk stops the run with a message; what is recorded already stays."""
        try:
            yield
        except _UNREADABLE as error:
            raise StudyError(
                f"{self.path} cannot be written: {_first_line(error)}. Free some space or mend the disk, then "
                "run the same command again: what is recorded is not lost"
            ) from error

    def note_not_launched(self, rows: Sequence[NotLaunched]) -> None:
        """Record which candidates were not launched because they cannot fit: all of them, each time."""
        with self._writing():
            self._study.set_user_attr(_NOT_LAUNCHED, [row.to_json() for row in rows])

    def not_launched(self) -> tuple[NotLaunched, ...]:
        """Candidates that were not launched because they cannot fit."""
        return tuple(NotLaunched.from_json(row) for row in self._study.user_attrs.get(_NOT_LAUNCHED, ()))

    def note_estimates(self, estimates_tok_s: Mapping[int, float]) -> None:
        """Record what trials make by all of them together, by number."""
        with self._writing():
            self._study.set_user_attr(
                _ESTIMATES, {str(number): estimate for number, estimate in estimates_tok_s.items()}
            )

    def note_confirmation(self, confirmation: Confirmation) -> None:
        """Record where the confirmation stands."""
        with self._writing():
            self._study.set_user_attr(_CONFIRMATION, confirmation.to_json())

    def confirmation(self) -> Confirmation | None:
        """Where the confirmation stands; None where none has begun."""
        document = self._study.user_attrs.get(_CONFIRMATION)
        return None if document is None else Confirmation.from_json(document)

    def note_canary(self, canary: Confirmation) -> None:
        """Record where the canary of a retune stands; a confirmation may follow it."""
        with self._writing():
            self._study.set_user_attr(_CANARY, canary.to_json())

    def canary(self) -> Confirmation | None:
        """Where the canary of a retune stands; None where there is none."""
        document = self._study.user_attrs.get(_CANARY)
        return None if document is None else Confirmation.from_json(document)

    def memory_before(self, known: Sequence[Observation]) -> tuple[Observation, ...]:
        """What was known of the rig's memory when the study began; `known` if it begins now.

        A resumed study goes on from the same knowledge, and so proposes the same.
        """
        rows = self._study.user_attrs.get(_MEMORY_BEFORE)
        if rows is None:
            with self._writing():
                self._study.set_user_attr(_MEMORY_BEFORE, [one.to_json() for one in known])
            return tuple(known)
        return tuple(Observation.from_json(row) for row in rows)

    def known_memory(self) -> tuple[Observation, ...]:
        """What was known of the rig's memory when the study began, for readers: nothing is recorded."""
        return tuple(Observation.from_json(row) for row in self._study.user_attrs.get(_MEMORY_BEFORE, ()))

    def clock(self) -> dict[int, tuple[float, float | None]]:
        """When each trial began and ended, by number, in seconds since 1970; no end for one that runs."""
        return {
            trial.number: (
                trial.datetime_start.timestamp(),
                None if trial.datetime_complete is None else trial.datetime_complete.timestamp(),
            )
            for trial in self._study.get_trials(deepcopy=False)
            if trial.datetime_start is not None
        }

    def records(self) -> list[TrialRecord]:
        """All trials, in order."""
        estimates = self._study.user_attrs.get(_ESTIMATES, {})
        goal = Goal.from_json(self.facts.get("workload", {}).get("goal"))
        return [
            replace(_record(trial), goal=goal, estimate_tok_s=estimates.get(str(trial.number)))
            for trial in self._study.get_trials(deepcopy=False)
        ]

    def sampler(self, seed: int) -> TpeSampler:
        """Optuna's TPE over what the search has launched so far."""
        trials = self._study.get_trials(deepcopy=False)
        ended = [t for t in trials if t.state.is_finished() and _ERRAND not in t.user_attrs]
        return TpeSampler(ended, seed=seed)


class TpeSampler:
    """Multivariate TPE over groups of parameters that are open together, with constraints."""

    def __init__(self, trials: Sequence[FrozenTrial], *, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=_mixed(seed, len(trials)),
                n_startup_trials=STARTUP_TRIALS,
                multivariate=True,
                group=True,
            )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.add_trials(trials)

    def ask(self) -> TpeDraw:
        """Begin a proposal."""
        return TpeDraw(self._study, self._study.ask())


@dataclass(frozen=True, slots=True)
class TpeDraw:
    """One proposal being drawn."""

    _study: optuna.Study
    _trial: Trial

    def suggest(self, dimension: Dimension) -> Coordinate:
        """TPE's value for a dimension."""
        if isinstance(dimension, Categorical):
            return cast("Coordinate", self._trial.suggest_categorical(dimension.name, dimension.choices))
        if isinstance(dimension, Integer):
            return self._trial.suggest_int(dimension.name, dimension.low, dimension.high, step=dimension.step)
        return self._trial.suggest_float(dimension.name, dimension.low, dimension.high, step=dimension.step)

    def refuse(self) -> None:
        """Tell TPE that this one cannot be used."""
        self._trial.set_constraint(_USABLE, 1.0)
        self._study.tell(self._trial, state=OptunaState.PRUNED)


def _check_format(path: Path) -> None:
    """A file of something else is named as such, before SQLite says it in its own words."""
    if not path.exists():
        return
    with path.open("rb") as stream:
        head = stream.read(len(_SQLITE_MAGIC))
    if head and head != _SQLITE_MAGIC:
        raise StudyError(f"{path} is no SQLite database; move it away to start anew")


def _first_line(error: BaseException) -> str:
    """What the database itself said; Optuna's own words for it say nothing of the disk."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).partition("\n")[0] or type(error).__name__


def _storage(path: Path) -> optuna.storages.RDBStorage:
    return optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 30}})


def _record(trial: FrozenTrial) -> TrialRecord:
    attributes = trial.user_attrs
    candidate = attributes.get(_CANDIDATE)
    result = attributes.get(_RESULT)
    ended = trial.state.is_finished() and result is not None
    return TrialRecord(
        number=trial.number,
        candidate=None if candidate is None else Candidate.from_json(candidate),
        reference=attributes.get(_REFERENCE),
        argv=tuple(attributes.get(_ARGV, ())),
        environment=MappingProxyType(dict(attributes.get(_ENVIRONMENT, {}))),
        result=LaunchResult.from_json(result) if ended and result is not None else None,
        wall_s=attributes.get(_WALL, 0.0),
        errand=_errand(attributes.get(_ERRAND)),
    )


def _errand(row: Sequence[Any] | None) -> Errand:
    return SEARCHING if row is None else Errand(Purpose(row[0]), int(row[1]), int(row[2]))


def _distribution(dimension: Dimension) -> BaseDistribution:
    if isinstance(dimension, Categorical):
        return CategoricalDistribution(dimension.choices)
    if isinstance(dimension, Integer):
        return IntDistribution(dimension.low, dimension.high, step=dimension.step)
    return FloatDistribution(dimension.low, dimension.high, step=dimension.step)


def _mixed(seed: int, count: int) -> int:
    """One seed out of two numbers; neighbours give unlike generators."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{count}".encode()).digest()[:4], "big")
