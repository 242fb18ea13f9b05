"""`make bench-storage`: what a storage that several workers share costs a trial, on a local PostgreSQL.

Workers are processes that do to the storage all that a worker does in one trial, with documents of a usual size, and
launch nothing. Printed are, for 1, 4 and 16 of them at 1,000 and 10,000 trials, how many trials a second they make
back to back, and the time that one loses with the storage; the same of 16 workers that make a launch every 6 s at
2,000 trials, whose median has a limit; and SQLite, as one worker has it by itself.

With `--study` it is played instead how fast one worker and four find what is best, with the speed model's proposals.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.trial import TrialState as OptunaState  # noqa: TID251 - fills a storage
from optuna.trial import create_trial  # noqa: TID251 - as above

from tests.bench.storage_study import play
from tests.support.played_search import TASK
from tests.support.postgres import Postgres
from tests.support.trials import a_record, a_sample
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import LaunchResult, LaunchSpec
from tuner.core.outcome import Outcome
from tuner.core.trial import SEARCHING
from tuner.search.coordinates import complete, coordinates
from tuner.study import Kept, Making, SharedStore, StudyStore, TrialStore, Worker
from tuner.study.documents import ended_document, launch_document, template
from tuner.study.location import Location
from tuner.study.rows import RESULT, WALL, attributes_of
from tuner.study.sampler import placed
from tuner.study.storages import open_storage

if TYPE_CHECKING:
    import threading

    from tuner.core.candidate import Candidate

IDENTITY = StudyIdentity({"model": Part("m1", "played")})
SIZES = (1_000, 10_000)
WORKERS = (1, 4, 16)
PACE_S, PACED_WORKERS, PACED_TRIALS, LIMIT_MS = 6.0, 16, 2_000, 100.0
#: As long as a log's end is kept.
_LOG = "llama_model_load: something that a log says\n" * 90
_KEPT = Kept(_LOG[:4096], {"CUDA0": {"weights": 1.0, "kv": 2.0}, "CUDA1": {"weights": 1.0, "kv": 2.0}})
_REQUESTS = 5
_READY_S = 240.0
_ARGV = ["llama-server", *(f"--option-{number} value" for number in range(24))]
_PLAIN = complete(TASK.bound, {"split-mode": "layer"})


@dataclass(frozen=True, slots=True)
class Lost:
    """What some workers have measured."""

    each_s: tuple[float, ...]
    """Seconds with the storage, a trial each."""
    seconds: float
    """In which they were made."""

    @property
    def median_ms(self) -> float:
        """Of a trial."""
        return statistics.median(self.each_s) * 1e3

    @property
    def slow_ms(self) -> float:
        """What one trial of twenty takes longer than."""
        return sorted(self.each_s)[int(len(self.each_s) * 0.95)] * 1e3

    @property
    def a_second(self) -> float:
        """Trials."""
        return len(self.each_s) / self.seconds


def main() -> int:
    """Measure, print, and fail where the limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each row")
    parser.add_argument("--paced", type=float, default=60.0, help="seconds of the paced one")
    parser.add_argument("--study", action="store_true", help="play one worker and four on one study instead")
    given = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if given.study:
        return play()
    print(f"{os.cpu_count()} cores; a trial's document has {_document_bytes() / 1024:.1f} KiB")
    print("storage      workers   trials there   trials/s   ms a trial (median)   95 %")
    with tempfile.TemporaryDirectory() as name, Postgres() as server:
        for size in SIZES:
            _row("SQLite", 1, size, _sqlite(Path(name) / f"{size}.db", size, given.seconds))
        for size in SIZES:
            study = _filled(server.url, size)
            for workers in WORKERS:
                _row("PostgreSQL", workers, size, _shared(server.url, study, workers, given.seconds))
        study = _filled(server.url, PACED_TRIALS)
        paced = _shared(server.url, study, PACED_WORKERS, given.paced, pace_s=PACE_S)
    print(
        f"{PACED_WORKERS} workers, a launch every {PACE_S:g} s each, at {PACED_TRIALS:,} trials: "
        f"median {paced.median_ms:.0f} ms a trial, 95 % {paced.slow_ms:.0f} ms "
        f"({len(paced.each_s)} trials; limit {LIMIT_MS:g} ms)"
    )
    return 0 if paced.median_ms < LIMIT_MS else 1


def _row(storage: str, workers: int, size: int, lost: Lost) -> None:
    print(
        f"{storage:<12} {workers:>7}   {size:>12,}   {lost.a_second:>8.1f}   {lost.median_ms:>19.1f}   "
        f"{lost.slow_ms:>6.1f}",
        flush=True,
    )


def _shared(url: str, study: str, workers: int, seconds: float, *, pace_s: float = 0.0) -> Lost:
    """Let workers make trials for so long, side by side, once all have read what is there."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(workers, mp_context=context) as pool:
        gate = manager.Barrier(workers)
        work = partial(
            _work, url=url, study=study, seconds=seconds, pace_s=pace_s, workers=workers, gate=gate
        )
        rows = list(pool.map(work, range(workers)))
    return Lost(tuple(one for row in rows for one in row), seconds)


def _work(
    number: int,
    *,
    url: str,
    study: str,
    seconds: float,
    pace_s: float,
    workers: int,
    gate: threading.Barrier,
) -> list[float]:
    store = SharedStore.open(
        Location.parse(url, "bench"),
        study,
        worker=Worker(f"w{number}-{time.time_ns()}", f"host-{number}"),
        place_of=lambda candidate: coordinates(TASK.bound, candidate),
    )
    store.records()
    gate.wait(_READY_S)
    found: list[float] = []
    began = time.monotonic()
    if pace_s:
        time.sleep(pace_s * number / workers)
    while time.monotonic() - began < seconds:
        at_s = time.monotonic()
        found.append(_trial(store, f"{study} {number} {time.time_ns()}"))
        if pace_s:
            time.sleep(max(pace_s - (time.monotonic() - at_s), 0.0))
    store.close()
    return found


def _trial(store: TrialStore, mark: str) -> float:
    """All that a worker does to the storage in one trial; seconds."""
    began = time.perf_counter()
    store.look_after_others()
    store.records()
    spec = LaunchSpec(_candidate(mark), None)
    number = store.begin(spec, coordinates(TASK.bound, _PLAIN), argv=_ARGV, environment={})
    store.finish(a_record(number, spec.candidate, _result()), _KEPT)
    store.records()
    store.confirmation()
    return time.perf_counter() - began


def _sqlite(path: Path, size: int, seconds: float) -> Lost:
    """One worker alone, as it is without a shared storage."""
    store = StudyStore.for_run(path, IDENTITY, {})
    result, place = _result(), coordinates(TASK.bound, _PLAIN)
    for number in range(size):
        known = attributes_of(
            LaunchSpec(_candidate(str(number)), None), argv=_ARGV, environment={}, errand=SEARCHING
        )
        ended = create_trial(
            value=50.0,
            **placed(place),
            user_attrs={**known, RESULT: result.to_json(), WALL: 24.0},
        )
        store._storage.create_new_trial(store._study_id, ended)
    store.records()
    found: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < seconds or not found:
        found.append(_trial(store, str(time.time_ns())))
    return Lost(tuple(found), time.monotonic() - began)


def _filled(url: str, size: int) -> str:
    """A study with so many trials."""
    location, name = Location.parse(url, "bench"), f"bench {size} {time.time_ns()}"
    SharedStore.for_run(location, name, Making(IDENTITY, {}, lease_s=60.0))
    storage = open_storage(location)
    study_id = storage.get_study_id_from_name(name)
    worker, result = Worker("filler", "filler"), _result()
    for number in range(size):
        spec = LaunchSpec(_candidate(f"{name} {number}"), None)
        document = launch_document(
            spec, worker, str(number), argv=_ARGV, environment={}, errand=SEARCHING, now_s=0.0
        )
        record = a_record(number, spec.candidate, result)
        whole = ended_document(document, record, _KEPT, now_s=0.0)
        storage.create_new_trial(study_id, template(OptunaState.COMPLETE, whole, record.score))
    return name


def _candidate(mark: str) -> Candidate:
    return replace(_PLAIN, items=(*_PLAIN.items, ("seed", mark)))


def _result() -> LaunchResult:
    samples = tuple(a_sample(prompt_id=f"code-{number}") for number in range(_REQUESTS))
    return LaunchResult(
        Outcome(), samples, load_s=4.0, requests_s=20.0, buffers_mib={"CUDA0": 1e4, "CUDA1": 1e4}
    )


def _document_bytes() -> int:
    spec = LaunchSpec(_candidate("0"), None)
    begun = launch_document(
        spec, Worker("w", "h"), "0" * 32, argv=_ARGV, environment={}, errand=SEARCHING, now_s=0.0
    )
    return len(json.dumps(ended_document(begun, a_record(0, spec.candidate, _result()), _KEPT, now_s=0.0)))


if __name__ == "__main__":
    raise SystemExit(main())
