"""A study in a database that several workers write to: what each sees, and that nothing is lost or doubled."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy.exc

from tests.support.played_run import BOUND, IDENTITY, candidate
from tests.support.shared_study import (
    DEADLINE_S,
    SharedBench,
    Waiting,
    begin,
    close,
    launch,
    one,
    together,
    until,
)
from tests.support.trials import a_record, a_sample, ended, measured
from tests.support.tuner_command import kinds
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchResult
from tuner.core.memory.words import NotLaunched
from tuner.core.objective import Goal
from tuner.core.outcome import Kind, Outcome
from tuner.core.trial import SEARCHING, Errand, Purpose, TrialRecord, searched
from tuner.errors import StudyError
from tuner.search.confirmation.state import Confirmation
from tuner.search.confirmation.verdict import Plan
from tuner.search.coordinates import coordinates
from tuner.study import PROVING, Kept, Making, SharedStore, Taken
from tuner.study.making import make
from tuner.study.storages import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONFIRM = Errand(Purpose.CONFIRM, 1, 0)
ROUNDS = 12


def give_up(seen_by: SharedStore, number: int) -> None:
    """Look until nothing was heard of a trial for a lease."""

    def is_given_up() -> bool:
        seen_by.look_after_others()
        return next(row for row in seen_by.stored() if row.number == number).is_lost

    until(is_given_up)


def ended_with(record: TrialRecord, result: LaunchResult) -> TrialRecord:
    return replace(record, result=result, wall_s=12.5)


def shown(records: Sequence[TrialRecord]) -> list[tuple[Any, ...]]:
    """What, how it ended, and what it made."""
    return [
        (record.key, None if record.outcome is None else record.outcome.kind, record.score)
        for record in records
    ]


# --- a trial and its rows


def test_a_trial_comes_back_as_it_was_recorded(bench: SharedBench) -> None:
    store = bench.store()
    begun = begin(store, one(1), environment={"GGML_CUDA_ALLREDUCE": "nccl"})
    (running,) = bench.store("b").records()
    assert (running.result, running.worker, running.wall_s) == (None, "a", 0.0)
    sample = a_sample(draft_n=10, draft_n_accepted=7, text="")
    result = LaunchResult(Outcome(Kind.NONE), (sample,), load_s=3.5, exit_code=0, buffers_mib={"CUDA0": 1.5})
    store.finish(ended_with(begun, result), Kept("a line\n", {"CUDA0": {"weights": 12.5}}))
    (found,) = bench.store("b").records()
    assert (found.candidate, found.result, found.wall_s) == (one(1), result, 12.5)
    assert (found.number, found.reference, found.errand) == (begun.number, None, SEARCHING)
    assert found.argv == ("llama-server", "-m", "a.gguf")
    assert dict(found.environment) == {"GGML_CUDA_ALLREDUCE": "nccl"}
    assert found.key == begun.key
    (stored,) = bench.store(None).stored()
    assert stored.kept().log_tail == "a line\n"
    assert stored.kept().needs_mib == {"CUDA0": {"weights": 12.5}}


def test_what_was_answered_stays_with_its_worker(bench: SharedBench) -> None:
    launch(bench.store(), one(1), LaunchResult(Outcome(), (a_sample(text="a secret"),)))
    (record,) = bench.store("b").records()
    assert record.result is not None
    assert [sample.text for sample in record.result.samples] == [""]


def test_a_trial_is_one_parameter_one_attribute_and_one_value(bench: SharedBench) -> None:
    store = bench.store()
    launch(store, one(1), measured(50.0))
    launch(store, one(2), ended(Kind.OUT_OF_MEMORY))
    launch(store, one(3), ended(Kind.CRASHED))
    launch(store, CURRENT, measured(40.0))
    tables = ("trial_params", "trial_user_attributes", "trial_system_attributes", "trial_values")
    assert [bench.rows(table) for table in tables] == [4, 4, 0, 2]


def test_a_goal_that_an_answer_says_nothing_of_loses_no_trial(bench: SharedBench) -> None:
    """Its rate is none by the study's goal, though it generated: that is no sign that it was given up."""
    bench.facts = {"workload": {"goal": Goal(weights={"code": 0.5, "prose": 0.5}).to_json()}}
    store = bench.store()
    begun = begin(store, one(1))
    store.finish(replace(ended_with(begun, measured(50.0)), goal=store.goal))
    (record,) = bench.store("b").records()
    assert (record.score, record.outcome) == (None, Outcome())
    assert not bench.stores[0].unsettled()


def test_a_trial_without_a_result_cannot_end(bench: SharedBench) -> None:
    store = bench.store()
    begun = begin(store, one(1))
    with pytest.raises(StudyError, match="no result to record"):
        store.finish(begun)
    with pytest.raises(StudyError, match="trial 7 is not there"):
        store.finish(a_record(7, one(1), measured(50.0)))


# --- who is first


def test_of_two_that_begin_the_same_at_once_one_gets_it(bench: SharedBench) -> None:
    stores = bench.store("a"), bench.store("b")
    first: set[int] = set()
    for number in range(ROUNDS):
        found = together(*(partial(begin, store, one(number)) for store in stores))
        got = [at for at, end in enumerate(found) if isinstance(end, TrialRecord)]
        refused = [end for end in found if isinstance(end, Taken)]
        assert (len(got), len(refused)) == (1, 1), found
        first.add(got[0])
        (record,) = [record for record in stores[0].records() if record.key == one(number).key()]
        assert record.worker == "ab"[got[0]]
        stores[got[0]].finish(ended_with(record, measured(50.0)))
    assert len(stores[1].records()) == ROUNDS
    assert not any(row.runs for row in stores[0].stored())


def test_of_many_that_take_a_role_at_once_one_has_it(bench: SharedBench) -> None:
    stores = [bench.store(name) for name in "abcd"]
    for _ in range(3):
        taken = together(*(lambda store=store: store.take(PROVING) for store in stores))
        assert sorted(map(str, taken)) == ["False", "False", "False", "True"]
        assert [store.holds(PROVING) for store in stores] == taken
        stores[taken.index(True)].give_back(PROVING)
    assert not any(store.holds(PROVING) for store in stores)
    assert stores[0].records() == []


def test_who_asks_again_and_again_for_a_role_leaves_nothing_behind(bench: SharedBench) -> None:
    assert bench.store("a").take(PROVING)
    waiting = bench.store("b")
    before = len(waiting.stored())
    assert [waiting.take(PROVING) for _ in range(5)] == [False] * 5
    assert len(waiting.stored()) == before


def test_a_role_that_a_killed_run_had_is_free_for_its_next_run(bench: SharedBench) -> None:
    """Nobody else may be there to give it up."""
    killed = bench.store("a")
    assert killed.take(PROVING)
    killed._pulse.stop()
    again = bench.store("a")
    assert not again.holds(PROVING)
    assert again.take(PROVING)
    assert again.holds(PROVING)
    assert not bench.store("b").take(PROVING)


def test_the_proof_is_launched_by_who_has_the_role_alone(bench: SharedBench) -> None:
    proving, other = bench.store("a"), bench.store("b")
    with pytest.raises(Taken):
        begin(proving, one(1), CONFIRM)
    assert proving.take(PROVING)
    begin(proving, one(1), CONFIRM)
    with pytest.raises(Taken):
        begin(other, one(1), CONFIRM)
    assert [record.worker for record in other.records()] == ["a"]


def test_who_has_lost_the_role_changes_nothing_of_the_proof_any_more(bench: SharedBench) -> None:
    bench.lease_s = 0.2
    silent, other = bench.store("a"), bench.store("b")
    confirmation = Confirmation(1, Plan((one(1).key(),), (), 2, 0.01), (None, None))
    assert silent.take(PROVING)
    silent.note_confirmation(confirmation)
    silent._pulse.stop()
    until(lambda: other.take(PROVING))
    other.note_confirmation(replace(confirmation, round=2))
    with pytest.raises(Taken):
        silent.note_confirmation(replace(confirmation, ended=True))
    with pytest.raises(Taken):
        silent.note_ended("the winner is confirmed", (None, None))
    found = bench.store(None).confirmation()
    assert found is not None
    assert (found.round, found.ended) == (2, False)
    assert bench.store(None).ended() is None


# --- signs of life


def test_who_is_silent_for_a_lease_is_given_up_and_who_works_is_not(bench: SharedBench) -> None:
    """Also where the storage is away in between: nobody could show a sign then."""
    bench.lease_s = 2.0
    silent, working = bench.store("silent"), bench.store("working", wait=Waiting())
    lost, going = begin(silent, one(1)), begin(working, one(2))
    silent._pulse.stop()
    watching = bench.store("watching", wait=Waiting(bench.postgres.start))
    give_up(watching, lost.number)
    assert kinds(watching.records()) == [Kind.STOPPED, None]
    assert watching.records()[0].outcome == Outcome(
        Kind.STOPPED, evidence="nothing was heard of its worker any more (host-silent)"
    )
    bench.postgres.stop()
    watching.look_after_others()
    also_lost = begin(silent, one(3))  # its pulse has stopped
    give_up(watching, also_lost.number)  # a whole lease after the storage came back
    assert kinds(watching.records()) == [Kind.STOPPED, None, Kind.STOPPED]
    working.finish(ended_with(going, measured(60.0)))
    assert [record.score for record in watching.records()] == [None, 60.0, None]
    assert working.unsettled() == []


def test_nobody_gives_up_what_is_its_own(bench: SharedBench) -> None:
    bench.lease_s = 0.1
    store = bench.store("a")
    begun = begin(store, one(1))
    store._pulse.stop()
    again = bench.store("a")
    for _ in range(5):
        again.look_after_others()
        threading.Event().wait(bench.lease_s)
    assert [record.number for record in again.unsettled()] == [begun.number]
    assert again.unsettled()[0].result is None


# --- late results


@pytest.fixture
def late(bench: SharedBench) -> tuple[SharedStore, SharedStore, TrialRecord]:
    """Its worker, another one, and a trial that was given up."""
    bench.lease_s = 0.2
    worker, other = bench.store("a"), bench.store("b")
    begun = begin(worker, one(1))
    worker._pulse.stop()
    give_up(other, begun.number)
    return worker, other, begun


def test_a_late_result_is_added_once(late: tuple[SharedStore, SharedStore, TrialRecord]) -> None:
    worker, other, begun = late
    assert [record.number for record in worker.unsettled()] == [begun.number]
    for _ in range(2):
        worker.finish(ended_with(begun, measured(50.0)), Kept("the log\n"))
        assert shown(other.records()) == [
            (begun.key, Kind.STOPPED, None),
            (begun.key, Kind.NONE, pytest.approx(50.0)),
        ]
    assert worker.unsettled() == []
    first, added = other.stored()
    assert (first.is_lost, added.late_for, added.worker.id) == (True, begun.number, "a")
    assert added.kept().log_tail == "the log\n"


@pytest.mark.parametrize("result", [ended(Kind.OUT_OF_MEMORY), ended(Kind.CRASHED), ended(Kind.RPC_LOST)])
def test_a_late_failure_is_added_too(
    late: tuple[SharedStore, SharedStore, TrialRecord], result: LaunchResult
) -> None:
    worker, other, begun = late
    for _ in range(2):
        worker.finish(ended_with(begun, result))
    assert kinds(other.records()) == [Kind.STOPPED, result.outcome.kind]
    assert worker.unsettled() == []


def test_a_trial_that_was_given_up_while_its_result_was_written_is_not_measured(bench: SharedBench) -> None:
    """The attribute was there, the state was not: its own worker adds the result anew, once."""
    worker, other = bench.store("a"), bench.store("b")
    begun = begin(worker, one(1))
    storage: Any = worker._storage
    mine = worker.stored()[0]
    set_state = storage.set_trial_state_values

    def given_up_first(trial_id: int, state: Any, values: Any = None) -> Any:  # noqa: ANN401 - as Optuna's
        storage.set_trial_state_values = set_state
        other._storage.set_trial_state_values(mine.id, type(state).FAIL)
        return set_state(trial_id, state, values)

    storage.set_trial_state_values = given_up_first
    worker.finish(ended_with(begun, measured(50.0)))
    assert shown(other.records()) == [
        (begun.key, Kind.STOPPED, None),
        (begun.key, Kind.NONE, pytest.approx(50.0)),
    ]
    assert other.stored()[0].is_lost
    assert worker.unsettled() == []


def test_a_result_is_recorded_once_however_often_it_is_told(bench: SharedBench) -> None:
    worker = bench.store("a")
    begun = begin(worker, one(1))
    for _ in range(3):
        worker.finish(ended_with(begun, measured(50.0)))
    bench.store("a").finish(ended_with(begun, measured(50.0)))
    assert shown(bench.store("b").records()) == [(begun.key, Kind.NONE, pytest.approx(50.0))]


# --- a storage that fails


class LostAnswer:
    """The storage does it, once or as often as asked, and then nobody hears of it."""

    def __init__(self, storage: Any, call: str, times: int = 1) -> None:  # noqa: ANN401 - Optuna's
        self._do = getattr(storage, call)
        self._left = times
        setattr(storage, call, self)

    def __call__(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as above
        answer = self._do(*given, **named)
        if self._left:
            self._left -= 1
            raise sqlalchemy.exc.OperationalError("COMMIT", {}, Exception("server closed the connection"))
        return answer


@pytest.mark.parametrize("call", ["create_new_trial", "set_trial_user_attr", "set_trial_state_values"])
def test_lost_answers_double_nothing(bench: SharedBench, call: str) -> None:
    wait = Waiting()
    worker = bench.store("a", wait=wait)
    LostAnswer(worker._storage, call, 2)
    begun = launch(worker, one(1), measured(50.0))
    assert len(wait.told) == (2 if call == "set_trial_user_attr" else 1)
    assert all("server closed the connection" in why for why in wait.told)
    assert shown(bench.store("b").records()) == [(begun.key, Kind.NONE, pytest.approx(50.0))]
    assert len(worker.stored()) == 1
    assert bench.rows("trial_values") == 1


def test_a_lost_answer_to_a_late_result_doubles_nothing(bench: SharedBench) -> None:
    bench.lease_s = 0.2
    wait = Waiting()
    worker, other = bench.store("a", wait=wait), bench.store("b")
    begun = begin(worker, one(1))
    worker._pulse.stop()
    give_up(other, begun.number)
    LostAnswer(worker._storage, "create_new_trial")
    worker.finish(ended_with(begun, measured(50.0)))
    assert len(wait.told) == 1
    assert kinds(other.records()) == [Kind.STOPPED, Kind.NONE]


@pytest.mark.parametrize("call", ["create_new_trial", "set_trial_user_attr", "set_trial_state_values"])
def test_a_lost_answer_to_who_was_second_leaves_nothing(bench: SharedBench, call: str) -> None:
    begin(bench.store("a"), one(1))
    second = bench.store("b", wait=Waiting())
    LostAnswer(second._storage, call)
    with pytest.raises(Taken):
        begin(second, one(1))
    assert [record.worker for record in second.records()] == ["a"]
    assert [row.runs for row in second.stored()] == [True, False]
    assert second.unsettled() == []


def test_a_launch_that_came_to_be_recorded_twice_is_withdrawn_once(bench: SharedBench) -> None:
    """A proxy may still be at work on what nobody waits for any more."""
    store = bench.store("a", wait=Waiting())
    storage: Any = store._storage
    create = storage.create_new_trial

    def twice(*given: Any) -> Any:  # noqa: ANN401 - as Optuna's
        storage.create_new_trial = create
        first = create(*given)
        create(*given)
        return first

    storage.create_new_trial = twice
    begun = begin(store, one(1))
    assert [row.runs for row in store.stored()] == [True, True]
    store.look_after_others()
    assert shown(store.records()) == [(begun.key, None, None)]
    assert [row.runs for row in store.stored()] == [True, False]
    store.finish(ended_with(begun, measured(50.0)))
    assert shown(store.records()) == [(begun.key, Kind.NONE, pytest.approx(50.0))]


def test_while_the_storage_is_away_a_worker_waits_and_loses_nothing(bench: SharedBench) -> None:
    wait = Waiting(bench.postgres.start)
    worker = bench.store("a", wait=wait)
    bench.postgres.stop()
    begun = begin(worker, one(1))
    assert len(wait.told) >= 1
    assert all(why.startswith(f"{bench.location} cannot be used: ") for why in wait.told)
    told = len(wait.told)
    bench.postgres.stop()
    assert shown(worker.records()) == [(begun.key, None, None)]
    assert len(wait.told) > told
    told = len(wait.told)
    bench.postgres.stop()
    worker.finish(ended_with(begun, measured(50.0)))
    assert len(wait.told) > told
    assert shown(bench.store("b").records()) == [(begun.key, Kind.NONE, pytest.approx(50.0))]
    assert len(worker.stored()) == 1


@pytest.mark.parametrize("call", ["create_new_trial", "get_all_trials", "set_trial_state_values"])
def test_who_does_not_wait_is_told_what_to_do(bench: SharedBench, call: str) -> None:
    worker = bench.store("a", wait=Waiting(goes_on=False))
    begun = begin(worker, one(1))
    LostAnswer(worker._storage, call, 9)
    begins, ends = partial(begin, worker, one(2)), partial(worker.finish, ended_with(begun, measured(50.0)))
    with pytest.raises(StudyError) as caught:
        (begins if call == "create_new_trial" else ends)()
    assert str(caught.value) == (
        f"{bench.location} cannot be used: server closed the connection. What was measured is kept; run the same "
        "command again when it is back"
    )


def test_a_fault_of_our_own_is_no_storage_that_is_away(bench: SharedBench) -> None:
    worker = bench.store("a")

    def faulty(*_given: Any, **_named: Any) -> None:  # noqa: ANN401 - as Optuna's
        raise TypeError("a fault")

    storage: Any = worker._storage
    storage.get_all_trials = faulty
    with pytest.raises(TypeError, match="a fault"):
        worker.records()


@pytest.mark.parametrize("during", ["begin", "finish", "records", "notes"])
def test_a_study_that_somebody_has_deleted_is_said_to_be_gone(bench: SharedBench, during: str) -> None:
    worker = bench.store("a", wait=Waiting())
    begun = begin(worker, one(1))
    bench.delete()
    actions: dict[str, Callable[[], object]] = {
        "begin": lambda: begin(worker, one(2)),
        "finish": lambda: worker.finish(ended_with(begun, measured(50.0))),
        "records": worker.records,
        "notes": lambda: worker.note_run({"launches": 3}),
    }
    with pytest.raises(StudyError, match=f"{bench.name}: the study is not there any more"):
        actions[during]()


# --- making and opening


def test_who_comes_while_a_study_is_made_waits_until_it_is(bench: SharedBench) -> None:
    """Else each would give it another identity, and one of them would not know it again."""
    making: Any = open_storage(bench.location)
    set_attribute, came = making.set_study_user_attr, threading.Event()

    def in_the_middle(study_id: int, key: str, value: Any) -> None:  # noqa: ANN401 - as Optuna's
        if key == "uid":
            apart.start()
            came.wait(0.5)
        set_attribute(study_id, key, value)

    def comes() -> None:
        found.append(bench.store("b"))
        came.set()

    found: list[SharedStore] = []
    apart = threading.Thread(target=comes)
    making.set_study_user_attr = in_the_middle
    make(making, bench.name, Making(IDENTITY, {}, 60.0))
    apart.join(DEADLINE_S)
    close(making)
    assert [store.uid for store in found] == [bench.store("a").uid]


def test_many_may_make_a_study_at_once(bench: SharedBench) -> None:
    found = together(lambda: bench.store("a"), lambda: bench.store("b"), lambda: bench.store("c"))
    assert len({store.uid for store in found if isinstance(store, SharedStore)}) == 1, found
    assert all(isinstance(store, SharedStore) for store in found), found


def test_a_study_of_something_else_is_refused(bench: SharedBench) -> None:
    bench.store()
    bench.identity = StudyIdentity({**IDENTITY.parts, "engine": Part("e2", "build 10435")})
    with pytest.raises(StudyError, match="engine: made with build 11434, now build 10435"):
        bench.store("b")


def test_a_study_of_another_format_is_refused(bench: SharedBench) -> None:
    store = bench.store()
    store._set_note("format", "machines-0")
    opened: list[Callable[[], object]] = [
        lambda: bench.store("b"),
        lambda: SharedStore.open(bench.location, bench.name),
    ]
    for open_ in opened:
        with pytest.raises(StudyError, match="format machines-0, this version of the tuner reads machines-1"):
            open_()


def test_a_study_that_is_not_there_is_said_to_be_missing_and_what_is(bench: SharedBench) -> None:
    bench.store()
    with pytest.raises(StudyError, match=f"no study 'none' there; studies: .*{bench.name}"):
        SharedStore.open(bench.location, "none")


# --- what each sees


@pytest.fixture
def three(bench: SharedBench) -> SharedBench:
    """Two workers have searched and measured references; a third has measured none yet."""
    a, b = bench.store("a"), bench.store("b")
    launch(a, ENGINE_DEFAULT, measured(40.0))
    launch(b, ENGINE_DEFAULT, measured(41.0))
    launch(b, CURRENT, measured(43.0))
    launch(a, CURRENT, measured(42.0))
    launch(a, one(1), measured(50.0))
    launch(b, one(2), measured(51.0))
    return bench


def scores(store: SharedStore) -> list[float | None]:
    return [record.score and round(record.score, 3) for record in store.records()]


def test_a_worker_sees_every_candidate_and_its_own_references(three: SharedBench) -> None:
    assert scores(three.store("a")) == [40.0, 42.0, 50.0, 51.0]
    assert scores(three.store("b")) == [41.0, 43.0, 50.0, 51.0]
    every = three.store("a").every_record()
    assert [record.worker for record in every] == ["a", "b", "b", "a", "a", "b"]


def test_who_has_none_yet_sees_the_first_rigs_references(three: SharedBench) -> None:
    assert scores(three.store("c")) == [40.0, 42.0, 50.0, 51.0]
    launch(three.store("c"), CURRENT, measured(44.0))
    assert scores(three.store("c")) == [50.0, 51.0, 44.0]


def test_readers_see_the_references_of_who_has_proved_else_of_who_was_first(three: SharedBench) -> None:
    assert scores(three.store(None)) == [40.0, 42.0, 50.0, 51.0]
    b = three.store("b")
    assert b.take(PROVING)
    launch(b, CURRENT, measured(45.0), CONFIRM)
    launch(b, one(2), measured(55.0), CONFIRM)
    assert scores(three.store(None)) == [41.0, 43.0, 50.0, 51.0, 45.0, 55.0]
    assert scores(three.store("a")) == [40.0, 42.0, 50.0, 51.0, 45.0, 55.0]
    assert [record.score for record in searched(three.store(None).records())][-1] == pytest.approx(51.0)


def test_the_time_used_is_that_of_the_busiest_worker(three: SharedBench) -> None:
    assert three.store(None).used_s() == 37.5


def test_notes_of_several_workers_are_all_seen(bench: SharedBench) -> None:
    a, b = bench.store("a"), bench.store("b")
    both = NotLaunched("key 1", "CUDA0", 100)
    own = NotLaunched("key 2", "CUDA1", 200)
    a.note_not_launched([both])
    b.note_not_launched([both, own])
    assert b.not_launched() == (both, own)
    begun = launch(a, one(3), measured(50.0))
    a.note_estimates({begun.number: 49.0})
    a.close()
    b.close()
    reader = bench.store(None)
    assert reader.not_launched() == (both, own)
    assert [record.estimate_tok_s for record in reader.records()] == [49.0]


def test_a_rig_that_was_set_apart_may_come_back(bench: SharedBench) -> None:
    store = bench.store("a")
    store.note_apart("it is slow")
    assert bench.store("b").apart() == {"a": "it is slow"}
    store.note_not_apart()
    assert bench.store("b").apart() == {}


def test_the_sampler_learns_from_all_workers_and_of_what_runs(bench: SharedBench) -> None:
    a = bench.store("a", place_of=lambda found: coordinates(BOUND, found))
    launch(a, candidate(64), measured(50.0))
    launch(bench.store("b"), candidate(128), ended(Kind.OUT_OF_MEMORY))
    begin(bench.store("b"), candidate(256))
    launch(a, ENGINE_DEFAULT, measured(40.0))
    trials = a.sampler(1)._study.get_trials(deepcopy=False)
    assert [trial.params for trial in trials] == [{"ubatch-size": size} for size in (64, 128, 256)]
    assert [trial.state.name for trial in trials] == ["COMPLETE", "PRUNED", "RUNNING"]
