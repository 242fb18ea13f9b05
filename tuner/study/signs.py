"""Signs of life of running trials: written while a worker works on one, and read by the others.

A database has a table for them (Optuna's heartbeats). Its gRPC proxy has no call for that, so there a worker writes
an attribute of the study that is named after it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy
from optuna.storages import _CachedStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.storages import BaseStorage

    from tuner.study.documents import Stored

SIGN = "alive "


class Signs(Protocol):
    """Where signs of life are."""

    def show(self, trial_id: int) -> None:
        """We live, and work on this."""

    def of(self, trials: Sequence[Stored]) -> Mapping[int, object]:
        """The last sign of each, by its id; None where there was none."""

    def quiet_s(self, trials: Sequence[Stored]) -> Mapping[int, float | None]:
        """Seconds since the last sign of each by the storage's own clock, by its id; None where nobody can say."""


def signs_of(storage: BaseStorage, study_id: int, worker_id: str) -> Signs:
    """What a storage has for them."""
    if isinstance(storage, _CachedStorage):
        return _Heartbeats(storage)
    return _Attributes(storage, study_id, worker_id)


class _Heartbeats:
    """Optuna's own table, by the database's clock."""

    def __init__(self, storage: _CachedStorage) -> None:
        self._storage = storage

    def show(self, trial_id: int) -> None:
        self._storage.record_heartbeat(trial_id)

    def of(self, trials: Sequence[Stored]) -> Mapping[int, object]:
        return self._asked("heartbeat", trials)

    def quiet_s(self, trials: Sequence[Stored]) -> Mapping[int, float | None]:
        asked = self._asked("EXTRACT(EPOCH FROM (LOCALTIMESTAMP - heartbeat))", trials)
        return {one: None if said is None else float(said) for one, said in asked.items()}

    def _asked(self, what: str, trials: Sequence[Stored]) -> dict[int, Any]:
        """An expression over the row of each trial, by its id; None where it has none."""
        ids = [one.id for one in trials]
        if not ids:
            return {}
        query = sqlalchemy.text(
            f"SELECT trial_id, {what} AS said FROM trial_heartbeats WHERE trial_id IN :ids"  # noqa: S608 - ours
        ).bindparams(sqlalchemy.bindparam("ids", expanding=True))
        backend = self._storage._backend  # noqa: SLF001 - Optuna itself only says who is stale
        with backend.engine.connect() as connection:
            found = {row.trial_id: row.said for row in connection.execute(query, {"ids": ids})}
        return {one: found.get(one) for one in ids}


class _Attributes:
    """A counter a worker, that is a note on the study."""

    def __init__(self, storage: BaseStorage, study_id: int, worker_id: str) -> None:
        self._storage = storage
        self._study_id = study_id
        self._name = f"{SIGN}{worker_id}"
        self._count = 0

    def show(self, trial_id: int) -> None:
        self._count += 1
        self._storage.set_study_user_attr(self._study_id, self._name, [trial_id, self._count])

    def of(self, trials: Sequence[Stored]) -> Mapping[int, object]:
        notes = self._storage.get_study_user_attrs(self._study_id)
        found = {}
        for one in trials:
            sign = notes.get(f"{SIGN}{one.worker.id}")
            found[one.id] = None if sign is None else tuple(sign)
        return found

    def quiet_s(self, trials: Sequence[Stored]) -> Mapping[int, float | None]:
        return dict.fromkeys((one.id for one in trials), None)  # a counter has no time


class Pulse:
    """Shows signs of life from a thread of its own, as long as there is something to show them for.

    Args:
        signs: Where they go.
        every_s: How often.
        failed: Is told when one could not be shown.
    """

    def __init__(self, signs: Signs, every_s: float, failed: Callable[[], None]) -> None:
        self._signs = signs
        self._every_s = every_s
        self._failed = failed
        self._held: set[int] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, trial_id: int) -> None:
        """Show signs for it from now on."""
        with self._lock:
            self._held.add(trial_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="signs of life", daemon=True)
                self._thread.start()

    def holds(self, trial_id: int) -> bool:
        """Whether signs are shown for it."""
        with self._lock:
            return trial_id in self._held

    def let_go(self, trial_id: int) -> None:
        """No more of it."""
        with self._lock:
            self._held.discard(trial_id)

    def stop(self) -> None:
        """No more at all."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(self._every_s)

    def _beat(self) -> None:
        while not self._over.wait(self._every_s):
            with self._lock:
                held = sorted(self._held)
            for trial_id in held:
                try:
                    self._signs.show(trial_id)
                except Exception:  # noqa: BLE001 - the run itself says what is wrong when it needs the storage
                    self._failed()
                    break
