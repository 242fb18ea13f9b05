"""A study that several workers share, over a real PostgreSQL or Optuna's proxy of it, for tests."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from optuna.storages import _CachedStorage, get_storage  # noqa: TID251 - what others run beside the tuner
from optuna.storages._grpc.server import make_server  # noqa: TID251 - as above

from tests.support.played_run import IDENTITY
from tests.support.postgres import free_port
from tests.support.trials import a_record
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchSpec
from tuner.core.trial import SEARCHING
from tuner.search.queue import wanted
from tuner.study import Making, SharedStore, Worker
from tuner.study.storages import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.support.postgres import Postgres
    from tuner.core.identity import StudyIdentity
    from tuner.core.launch import LaunchResult
    from tuner.core.trial import Errand, TrialRecord
    from tuner.study.location import Location

DEADLINE_S = 30.0
_POLL_S = 0.02


@contextlib.contextmanager
def proxy(url: str) -> Iterator[str]:
    """Optuna's gRPC proxy of a database, as `optuna.storages.run_grpc_proxy_server` runs it; its address."""
    port = free_port()
    backend = get_storage(url)
    with ThreadPoolExecutor(10) as threads:
        server = make_server(backend, "127.0.0.1", port, threads)
        server.start()
        try:
            yield f"grpc://127.0.0.1:{port}"
        finally:
            server.stop(grace=None).wait(DEADLINE_S)
            close(backend)


def close(storage: Any) -> None:  # noqa: ANN401 - Optuna's
    """Leave no connection open."""
    if isinstance(storage, _CachedStorage):
        storage._backend.engine.dispose()
    else:
        storage.close()


def never(why: str, _seconds: float) -> bool:
    """For a storage that is not to be away."""
    raise AssertionError(why)


@dataclass
class Waiting:
    """Is told why a storage cannot be used, and lets something happen each time."""

    then: Callable[[], object] = lambda: None
    goes_on: bool = True
    told: list[str] = field(default_factory=list)

    def __call__(self, why: str, _seconds: float) -> bool:
        self.told.append(why)
        self.then()
        return self.goes_on


@dataclass
class SharedBench:
    """One study of a test's own; every store has connections of its own, as if on another machine."""

    postgres: Postgres
    location: Location
    name: str
    lease_s: float = 60.0
    identity: StudyIdentity = IDENTITY
    facts: Mapping[str, Any] = field(default_factory=dict)
    stores: list[SharedStore] = field(default_factory=list)

    def store(
        self,
        worker: str | None = "a",
        *,
        wait: Callable[[str, float], bool] = never,
        **own: Any,  # noqa: ANN401 - as SharedStore
    ) -> SharedStore:
        """A worker's, or a reader's; the study is made where there is none."""
        who = None if worker is None else Worker(worker, f"host-{worker}")
        making = Making(self.identity, self.facts, self.lease_s)
        made = SharedStore.for_run(self.location, self.name, making, worker=who, wait=wait, **own)
        self.stores.append(made)
        return made

    def close(self) -> None:
        for store in self.stores:
            store._pulse.stop()
            close(store._storage)

    def rows(self, table: str) -> int:
        """How many rows a table of Optuna's has of this study."""
        with psycopg.connect(self.postgres.url.replace("+psycopg", "")) as connection:
            row = connection.execute(
                f"SELECT count(*) FROM {table} JOIN trials USING (trial_id) "  # noqa: S608 - a name in a test
                "JOIN studies USING (study_id) WHERE study_name = %s",
                [self.name],
            ).fetchone()
        assert row is not None
        return int(row[0])

    def delete(self) -> None:
        """Somebody else removes the study."""
        storage = open_storage(self.location)
        storage.delete_study(storage.get_study_id_from_name(self.name))
        close(storage)


def one(number: int) -> Candidate:
    """Another candidate for each number."""
    return Candidate.of({"split-mode": "layer", "ubatch-size": number})


def begin(
    store: SharedStore,
    what: Candidate | str,
    errand: Errand = SEARCHING,
    *,
    environment: Mapping[str, str] | None = None,
) -> TrialRecord:
    """Begin a candidate, or a reference by its name, unless somebody else has."""
    spec = LaunchSpec(None, what) if isinstance(what, str) else LaunchSpec(what)
    number = store.begin(
        spec,
        (),
        argv=["llama-server", "-m", "a.gguf"],
        environment=environment or {},
        errand=errand,
        still_wanted=lambda before: spec.candidate is None or errand != SEARCHING or wanted(spec.key, before),
    )
    return a_record(number, spec.candidate, None, reference=spec.reference, errand=errand)


def launch(
    store: SharedStore, what: Candidate | str, result: LaunchResult, errand: Errand = SEARCHING
) -> TrialRecord:
    """One trial from beginning to end."""
    begun = begin(store, what, errand)
    record = a_record(
        begun.number, begun.candidate, result, reference=begun.reference, wall_s=12.5, errand=errand
    )
    store.finish(record)
    return record


def until(met: Callable[[], object], said: Callable[[], object] = lambda: None) -> None:
    """Wait for something that others do."""
    end_s = time.monotonic() + DEADLINE_S
    while not met():
        assert time.monotonic() < end_s, said()
        time.sleep(_POLL_S)


def together(*actions: Callable[[], object]) -> list[object]:
    """What several threads come to that begin at the same moment; an exception where one raises it."""
    barrier = threading.Barrier(len(actions))
    found: list[object] = [None] * len(actions)

    def act(at: int) -> None:
        barrier.wait(DEADLINE_S)
        try:
            found[at] = actions[at]()
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            found[at] = error

    threads = [threading.Thread(target=act, args=[at]) for at in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)
    return found
