"""Workers on one study in a real database: joining it, sharing the search, proving the winner or standing by."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.played_run import DEFAULT, USERS, candidate
from tests.support.played_worker import RATES, SIZES, PlayedWorker
from tests.support.shared_study import DEADLINE_S, SharedBench, begin, launch, one
from tests.support.trials import ended, measured
from tests.support.tuner_command import kinds
from tuner.core.launch import CURRENT
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose
from tuner.errors import EngineError, RigError
from tuner.search.confirmation.result import winner_of
from tuner.study import PROVING
from tuner.study.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.postgres import Postgres
    from tuner.runs.ending import Ending

KEYS = [candidate(size).key() for size in SIZES]
BEST_CANDIDATE = candidate(256)
BEST = BEST_CANDIDATE.key()
REFERENCES = [USERS.key, DEFAULT.key]


@pytest.fixture
def bench(postgres: Postgres) -> Iterator[SharedBench]:
    bench = SharedBench(postgres, Location(postgres.url), uuid.uuid4().hex[:12])
    yield bench
    bench.close()


@pytest.fixture
def made(bench: SharedBench, tmp_path: Path) -> Callable[..., PlayedWorker]:
    return lambda name, **more: PlayedWorker(bench, name, tmp_path / name, **more)


class Apart:
    """A worker's run in a thread of its own."""

    def __init__(self, worker: PlayedWorker) -> None:
        self._found: list[Ending | BaseException] = []
        self._run = worker.worker().run
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        try:
            self._found.append(self._run())
        except BaseException as error:  # noqa: BLE001 - raised again where it is asked for
            self._found.append(error)

    def ending(self) -> Ending:
        """How it ended."""
        self._thread.join(DEADLINE_S)
        assert self._found, "it goes on and on"
        if isinstance(self._found[0], BaseException):
            raise self._found[0]
        return self._found[0]


def proved_by(bench: SharedBench) -> set[str | None]:
    """Who has launched what confirms the winner, in the round that counts."""
    reader = bench.store(None)
    confirmation = reader.confirmation()
    assert confirmation is not None
    return {
        record.worker
        for record in reader.every_record()
        if record.errand.purpose is Purpose.CONFIRM and record.errand.round == confirmation.round
    }


# --- one after the other


def test_a_worker_alone_searches_proves_and_says_that_the_study_is_complete(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    first = made("a")
    ending = first.go()
    assert (ending.why, ending.interrupted) == ("the winner is confirmed", False)
    assert first.launched[:7] == REFERENCES + KEYS
    reader = bench.store(None)
    assert winner_of(reader.confirmation(), reader.records()) == BEST
    assert not any(row.runs for row in reader.stored())

    second = made("b")
    assert second.go().why == "the study is complete: the winner is confirmed"
    assert second.launched == []


def test_a_study_goes_on_with_more_than_it_was_complete_with(made: Callable[..., PlayedWorker]) -> None:
    made("a").go(4)
    more = made("b")
    more.go(6)
    assert more.launched[:2] == REFERENCES
    assert more.launched[2:4] == KEYS[2:4]


def test_who_joins_measures_the_references_on_its_own_rig_and_nothing_twice(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    first, second = made("a"), made("b")
    first.stop_after(4)
    assert first.go().interrupted
    assert first.launched[:4] == [*REFERENCES, *KEYS[:2]]
    ending = second.go()
    assert ending.why == "the winner is confirmed"
    assert second.launched[:2] == REFERENCES
    searched = [
        record
        for record in bench.store(None).every_record()
        if record.errand.purpose is Purpose.SEARCH and kinds([record]) != [Kind.STOPPED]
    ]
    assert sorted(record.key for record in searched if record.candidate is not None) == sorted(KEYS)
    assert [record.key for record in searched if record.candidate is None] == REFERENCES * 2
    assert proved_by(bench) == {"b"}


def test_a_trial_that_a_killed_worker_was_in_is_settled_by_its_next_run_at_once(
    made: Callable[..., PlayedWorker],
) -> None:
    worker = made("a")
    begun = begin(worker.store, candidate(64))
    worker.start()
    worker.go()
    record = next(one for one in worker.store.records() if one.number == begun.number)
    assert record.outcome is not None
    assert record.outcome.evidence == "the tuner was killed during this trial"
    assert f"trial {begun.number} was cut off when the tuner was killed" in worker.notes
    assert worker.launched.count(KEYS[0]) == 1


# --- is the rig like the others'?


def test_a_rig_that_is_slower_is_refused_and_launches_no_candidate(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    first = made("a")
    first.stop_after(3)
    first.go()
    slow = made("b", speed=0.8)
    with pytest.raises(RigError) as caught:
        slow.go()
    said = str(caught.value)
    assert said.startswith(f"this rig is not like the others of {bench.location} {bench.name}: ")
    assert "reference: your command makes 80.0% of what the study's first rig makes" in said
    assert "tuner doctor" in said
    assert slow.launched == [USERS.key, DEFAULT.key, USERS.key, USERS.key]
    assert list(bench.store(None).apart()) == ["b"]
    assert bench.store(None).apart()["b"].startswith("host-b: reference: your command makes 80.0%")
    assert [record.worker for record in bench.store(None).records()] == ["a"] * 4


def test_a_rig_that_was_refused_is_measured_anew_once_somebody_has_looked_after_it(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    first = made("a")
    first.stop_after(3)
    first.go()
    rig = made("b", speed=0.8)
    with pytest.raises(RigError):
        rig.go()
    rig.start()
    with pytest.raises(RigError):
        rig.go()
    assert rig.launched == [USERS.key, DEFAULT.key, USERS.key, USERS.key]
    rig.speed = 1.0
    rig.start()
    assert not rig.go().interrupted
    assert rig.launched[:2] == REFERENCES
    assert bench.store(None).apart() == {}


@pytest.mark.parametrize("speed", [0.98, 1.0, 1.02])
def test_a_rig_that_differs_by_no_more_than_launches_do_is_let_in(
    made: Callable[..., PlayedWorker], speed: float
) -> None:
    first = made("a")
    first.stop_after(3)
    first.go()
    second = made("b", speed=speed)
    second.go()
    assert second.launched[:3] == [*REFERENCES, KEYS[1]]


def test_who_starts_at_the_same_time_waits_for_what_it_is_compared_with(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    """The first rig is in the middle of its reference when the second one has measured its own."""
    first, slow = bench.store("a"), made("b", speed=0.8)
    begun = begin(first, CURRENT)

    def finished() -> None:
        if first.unsettled():
            first.finish(replace(begun, result=measured(RATES[USERS.key]), wall_s=1.0))

    slow.interrupts.asleep = finished
    with pytest.raises(RigError, match=r"makes 80\.0%"):
        slow.go()
    assert set(slow.launched) == set(REFERENCES)
    assert "Standing by: the first rig still measures what this one is compared by." in slow.notes


def test_who_dies_while_it_measures_first_holds_nobody_up(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    bench.lease_s = 0.3
    dead = bench.store("a")
    begin(dead, CURRENT)
    dead._pulse.stop()
    second = made("b")
    assert second.go().why == "the winner is confirmed"


# --- the failures of one rig are not another's


def test_an_engine_that_is_broken_here_ends_this_worker_whatever_others_do(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    other, worker = bench.store("b"), made("a")
    worker.run.launcher.comes_to(KEYS[0], ended(Kind.BAD_FLAG))
    worker.run.launcher.meanwhile = lambda _log: (
        begin(other, one(7)) if worker.launched[-1] == KEYS[0] else None
    )
    with pytest.raises(EngineError, match="bad-flag"):
        worker.go()
    assert worker.launched == [*REFERENCES, KEYS[0]]


def test_what_hangs_on_another_rig_does_not_end_this_worker(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    """Three in a row of one rig say that it needs its owner."""
    other, worker = bench.store("b"), made("a")
    worker.run.launcher.comes_to(KEYS[0], ended(Kind.HUNG), ended(Kind.HUNG))

    def meanwhile(_log_path: Path) -> None:
        if worker.launched[-1] == KEYS[0]:
            launch(other, candidate(SIZES[len(worker.launched)]), ended(Kind.HUNG))

    worker.run.launcher.meanwhile = meanwhile
    assert worker.go(9).why == "the winner is confirmed"
    assert kinds(worker.store.records()).count(Kind.HUNG) == 4


# --- standing by


def test_a_worker_stands_by_while_another_is_in_the_middle_of_the_search(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    other, worker = bench.store("b"), made("a")
    begun = begin(other, BEST_CANDIDATE)

    def finished() -> None:
        if other.unsettled():
            other.finish(replace(begun, result=measured(60.0), wall_s=1.0))

    worker.interrupts.asleep = finished
    worker.go()
    assert (
        worker.notes.count("Standing by: the search is over but for what others are in the middle of.") == 1
    )
    assert worker.launched[:6] == [*REFERENCES, *(key for key in KEYS if key != BEST)]
    assert proved_by(bench) == {"a"}


def test_who_stands_by_stops_when_it_is_asked_to(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    other, worker = bench.store("b"), made("a")
    assert other.take(PROVING)

    def asked() -> None:
        worker.interrupts.requested = True

    worker.interrupts.asleep = asked
    ending = worker.go()
    assert ending.interrupted
    assert worker.launched == [*REFERENCES, *KEYS]
    assert worker.notes[-1] == "Standing by: another worker proves the winner."
    assert other.holds(PROVING)


def test_a_worker_takes_over_the_proof_when_the_prover_falls_silent(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    """The prover wakes up in the end, and changes nothing any more: its launch is added, and it stands by."""
    bench.lease_s = 0.5
    prover, other = made("a"), made("b")
    silent, wakes = threading.Event(), threading.Event()

    def meanwhile(_log_path: Path) -> None:
        if not silent.is_set() and prover.store.holds(PROVING):
            prover.store._pulse.stop()
            silent.set()
            assert wakes.wait(DEADLINE_S)

    prover.run.launcher.meanwhile = meanwhile
    apart = Apart(prover)
    try:
        assert silent.wait(DEADLINE_S)
        ending = other.go()
    finally:
        wakes.set()
        woken = apart.ending()
    assert ending.why == "the winner is confirmed"
    assert "Standing by: another worker proves the winner." in other.notes
    assert "The proof is begun anew on this rig: launches of two rigs do not compare." in other.notes
    reader = bench.store(None)
    confirmation = reader.confirmation()
    assert confirmation is not None
    assert (confirmation.round, confirmation.ended) == (2, True)
    assert proved_by(bench) == {"b"}
    assert winner_of(confirmation, reader.records()) == BEST
    assert woken.why == "the study is complete: the winner is confirmed"
    assert "Another worker goes on with the proof: nothing was heard of this one." in prover.notes
    first_round = [
        (record.worker, record.score is not None)
        for record in reader.every_record()
        if record.errand.purpose is Purpose.CONFIRM and record.errand.round == 1
    ]
    assert first_round == [("a", False), ("a", True)]
    assert not any(row.runs for row in reader.stored())


def test_two_at_the_same_time_share_the_search_and_one_proves(
    bench: SharedBench, made: Callable[..., PlayedWorker]
) -> None:
    workers = [made("a"), made("b")]
    endings = [apart.ending() for apart in [Apart(worker) for worker in workers]]
    assert "the winner is confirmed" in {ending.why for ending in endings}
    every = bench.store(None).every_record()
    searched = [record for record in every if record.errand.purpose is Purpose.SEARCH]
    assert sorted(record.key for record in searched if record.candidate is not None) == sorted(KEYS)
    assert sorted(record.key for record in searched if record.candidate is None) == sorted(REFERENCES * 2)
    assert len(proved_by(bench)) == 1
    assert bench.store(None).apart() == {}
    assert len(workers[0].launched) + len(workers[1].launched) == len(every)
