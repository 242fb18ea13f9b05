"""A study's own database: SQLite in its folder, one run at a time.

The record holds launched trials alone.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import optuna
import sqlalchemy.exc
from optuna.trial import Trial, create_trial
from optuna.trial import TrialState as OptunaState

from tuner.core.outcome import TrialState
from tuner.core.trial import SEARCHING
from tuner.errors import StudyError
from tuner.study.rows import ERRAND, RESULT, STATES, WALL, attributes_of, record_of
from tuner.study.sampler import USABLE, TpeSampler, placed
from tuner.study.trial_store import (
    ESTIMATES,
    FACTS,
    FORMAT,
    IDENTITY,
    NOTHING_KEPT,
    Kept,
    TrialStore,
    always,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from optuna.trial import FrozenTrial

    from tuner.core.identity import StudyIdentity
    from tuner.core.launch import LaunchSpec
    from tuner.core.trial import Errand, TrialRecord
    from tuner.search.dimensions import Coordinate, Dimension

_SQLITE_MAGIC = b"SQLite format 3\0"
_UNREADABLE = (optuna.exceptions.OptunaError, sqlalchemy.exc.SQLAlchemyError, RuntimeError)
#: Version of what the attributes hold; a study of another one is not read.
STUDY_FORMAT = 1


class StudyStore(TrialStore):
    """The record of one study in `study.db` of its folder."""

    def __init__(self, path: Path, study: optuna.Study) -> None:
        self.path = path
        self._study = study
        self._storage = study._storage  # noqa: SLF001 - the only way to make a RUNNING trial in one commit
        self._study_id = study._study_id  # noqa: SLF001 - as above
        self._ended: dict[int, TrialRecord] = {}

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
            if FORMAT not in study.user_attrs:  # new, or its tuner was killed while it made it
                study.set_user_attr(FACTS, dict(facts))
                study.set_user_attr(IDENTITY, identity.to_json())
                study.set_user_attr(FORMAT, STUDY_FORMAT)
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
        version = self._study.user_attrs.get(FORMAT)
        if version != STUDY_FORMAT:
            raise StudyError(f"{self.path}: format {version}, this version of the tuner reads {STUDY_FORMAT}")

    @property
    def place(self) -> str:
        """The database's path."""
        return str(self.path)

    def _note(self, name: str) -> Any:  # noqa: ANN401 - plain JSON
        return self._study.user_attrs.get(name)

    def _set_note(self, name: str, value: Any) -> None:  # noqa: ANN401 - as above
        with self._writing():
            self._study.set_user_attr(name, value)

    def _trials(self) -> Sequence[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def begin(
        self,
        spec: LaunchSpec,
        place: Sequence[tuple[Dimension, Coordinate]],
        *,
        argv: Sequence[str],
        environment: Mapping[str, str],
        errand: Errand = SEARCHING,
        still_wanted: Callable[[Sequence[TrialRecord]], bool] = always,  # noqa: ARG002 - nobody else works on it
    ) -> int:
        """See `TrialStore.begin`; nobody is ever first."""
        template = create_trial(
            state=OptunaState.RUNNING,
            **placed(place),
            user_attrs=attributes_of(spec, argv=argv, environment=environment, errand=errand),
        )
        with self._writing():
            trial_id = self._storage.create_new_trial(self._study_id, template)
            return self._storage.get_trial_number_from_id(trial_id)

    def finish(self, record: TrialRecord, kept: Kept = NOTHING_KEPT) -> None:  # noqa: ARG002 - its folder is here
        """See `TrialStore.finish`."""
        result, state = record.result, record.state
        if result is None or state is None:
            raise StudyError(f"trial {record.number} has no result to record")
        stored = next((trial for trial in self._trials() if trial.number == record.number), None)
        if stored is None or stored.state is not OptunaState.RUNNING:
            raise StudyError(
                f"trial {record.number} is not running: its result is recorded already, or it never was"
            )
        trial = Trial(self._study, stored._trial_id)  # noqa: SLF001 - tell() takes numbers, attributes need the id
        document = result.without_text().to_json()  # answers stay in the trial's folder, if anywhere
        with self._writing():
            trial.set_user_attr(RESULT, document)
            trial.set_user_attr(WALL, record.wall_s)
            if state is not TrialState.FAIL and USABLE not in trial.constraints:
                trial.set_constraint(USABLE, 0.0 if record.may_win else 1.0)
            value = record.score if state is TrialState.COMPLETE else None
            self._study.tell(record.number, value, state=STATES[state])

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

    def records(self) -> list[TrialRecord]:
        """All trials, in order."""
        estimates, goal = self._note(ESTIMATES) or {}, self.goal
        return [
            replace(self._record(trial), goal=goal, estimate_tok_s=estimates.get(str(trial.number)))
            for trial in self._trials()
        ]

    def _record(self, trial: FrozenTrial) -> TrialRecord:
        """A trial; one that has ended is read once, since it does not change any more."""
        known = self._ended.get(trial.number)
        if known is None:
            known = record_of(trial)
            if trial.state.is_finished():
                self._ended[trial.number] = known
        return known

    def unsettled(self) -> list[TrialRecord]:
        """Trials that a killed tuner was in."""
        return [record for record in self.records() if record.result is None]

    def sampler(self, seed: int) -> TpeSampler:
        """Optuna's TPE over what the search has launched so far."""
        ended = [t for t in self._trials() if t.state.is_finished() and ERRAND not in t.user_attrs]
        return TpeSampler(ended, seed=seed)


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
