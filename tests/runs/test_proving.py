"""Whole runs to a proven winner: who is confirmed and tested, in what time, and after which cuts."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tests.support.played_proof import Killed, ProofBench
from tests.support.played_run import DEFAULT, IDENTITY, USERS, AnsweringServer, Requested, candidate
from tests.support.played_server import PlayedServer, next_token
from tests.support.trials import ended
from tests.support.tuner_command import kinds
from tuner.core.monitoring import RigReport
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose
from tuner.errors import RigError
from tuner.report.proof import endurance_document
from tuner.runs.trial_folder import TrialFolder
from tuner.search.confirmation.result import Result, result_of, winner_of
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.core.launch import LaunchResult, LaunchSpec
    from tuner.core.quality import NextToken
    from tuner.runs.ending import Ending
    from tuner.search.confirmation.state import Confirmation

SIZES = (64, 128, 256, 512, 1024)
SMALLEST, ONE, OTHER, THIRD, LARGEST = (candidate(size).key() for size in SIZES)
RATES = {
    USERS.key: 45.0,
    DEFAULT.key: 30.0,
    SMALLEST: 35.0,
    ONE: 50.0,
    OTHER: 52.0,
    THIRD: 36.0,
    LARGEST: 37.0,
}
TESTED = (Purpose.SOAK, Purpose.ENDURE)


@pytest.fixture(scope="module")
def empty_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: SQLite and Optuna's tables take most of a test's time."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    StudyStore.for_run(path, IDENTITY, {})
    return path


@pytest.fixture
def bench(tmp_path: Path, empty_study: Path, monkeypatch: pytest.MonkeyPatch) -> ProofBench:
    shutil.copy(empty_study, tmp_path / "study.db")
    return ProofBench.made(tmp_path, monkeypatch, dict(RATES))


def go(
    bench: ProofBench,
    launches: int | None = None,
    *,
    seconds: float | None = None,
    references: tuple[LaunchSpec, ...] = (USERS, DEFAULT),
    starts: tuple[int, ...] = SIZES,
    worthwhile: float = 0.01,
    confirm_blocks: int = 2,
    soak: bool = False,
    endure_s: float | None = None,
) -> Ending:
    """A run that tries all of it, and asks for no more: proposals that are refused take most of a test's time."""
    return bench.run.go(
        launches or len(references) + len(starts),
        seconds=seconds,
        references=references,
        starts=starts,
        worthwhile=worthwhile,
        confirm_blocks=confirm_blocks,
        soak=soak,
        endure_s=endure_s,
        gaps_s=(5.0,),
    )


def confirmation_of(bench: ProofBench) -> Confirmation:
    found = bench.run.store.confirmation()
    assert found is not None
    return found


def result(bench: ProofBench) -> Result:
    found = result_of(confirmation_of(bench), bench.run.store.records())
    assert found is not None
    return found


def winner(bench: ProofBench) -> str | None:
    return winner_of(bench.run.store.confirmation(), bench.run.store.records())


def crashes() -> PlayedServer:
    return PlayedServer(slot_context=2048, dies_at=3)


def slows_down() -> PlayedServer:
    """By more than a launch's luck, once it has read the longest prompt."""
    return PlayedServer(slot_context=2048, pace=lambda requests: 1.0 if requests < 4 else 0.5)


def crashes_later() -> PlayedServer:
    return PlayedServer(slot_context=2048, dies_at=20)


# --- who is confirmed, and how


def test_leaders_and_references_are_launched_forth_and_back_after_the_search(bench: ProofBench) -> None:
    ending = go(bench)
    assert ending.why == "the winner is confirmed"
    arms = [*confirmation_of(bench).plan.leaders, USERS.key, DEFAULT.key]
    assert sorted(arms[:2]) == sorted([ONE, OTHER])
    purposes = [record.errand.purpose for record in bench.records()]
    assert purposes == [Purpose.SEARCH] * 7 + [Purpose.CONFIRM] * 8
    assert bench.keys(Purpose.CONFIRM) == arms + arms[::-1]
    assert [r.errand.block for r in bench.records(Purpose.CONFIRM)] == [0] * 4 + [1] * 4
    assert [why for _, _, why in bench.run.progress.begun][-1] == "confirming, 2 of at most 2"


@pytest.mark.parametrize("seed", range(4))
def test_the_best_in_the_confirmation_wins_not_the_lucky_one_of_the_search(
    bench: ProofBench, seed: int
) -> None:
    bench.seed = seed
    bench.luck = {ONE: 1.08, OTHER: 1.0}
    go(bench, confirm_blocks=0)
    assert winner(bench) == ONE
    go(bench, confirm_blocks=8)
    found = result(bench)
    assert (found.winner, found.runner_up and found.runner_up.arm) == (OTHER, ONE)
    assert found.runner_up is not None
    assert found.runner_up.interval is not None
    assert found.runner_up.interval.low < 52 / 50 < found.runner_up.interval.high
    assert {versus.arm for versus in found.references} == {USERS.key, DEFAULT.key}
    assert all(v.interval is not None and v.interval.low > 1 for v in found.references)


@pytest.mark.parametrize("seed", [0, 2, 3])  # one of twenty may say otherwise; 1 does
def test_equal_ones_are_said_to_be_equal(bench: ProofBench, seed: int) -> None:
    bench.seed, bench.rates[ONE] = seed, RATES[OTHER]
    go(bench, confirm_blocks=4)
    found = result(bench)
    assert found.runner_up is not None
    assert found.runner_up.interval is not None
    assert not found.runner_up.interval.significant
    assert found.tied_with == (found.runner_up.arm,)
    # nothing was measured of memory; the one whose micro-batch is everybody's would be plainer
    assert found.tie_broken_by == "speed"


def test_a_reference_that_is_faster_than_all_wins(bench: ProofBench) -> None:
    bench.rates[USERS.key] = 60.0
    go(bench, soak=True, confirm_blocks=4)
    assert winner(bench) == USERS.key
    assert bench.keys(Purpose.SOAK) == [USERS.key]


def test_without_a_reference_leaders_are_confirmed_among_themselves(bench: ProofBench) -> None:
    go(bench, references=())
    assert confirmation_of(bench).plan.references == ()
    assert set(bench.keys(Purpose.CONFIRM)) == {ONE, OTHER}


def test_a_reference_that_does_not_run_is_not_launched_again(bench: ProofBench) -> None:
    bench.run.launcher.comes_to(DEFAULT.key, ended(Kind.OUT_OF_MEMORY))
    go(bench)
    assert confirmation_of(bench).plan.references == (USERS.key,)
    assert DEFAULT.key not in bench.keys(Purpose.CONFIRM)


def test_the_only_candidate_is_confirmed_beside_its_references(bench: ProofBench) -> None:
    go(bench, 3, starts=(256,))
    assert confirmation_of(bench).plan.leaders == (OTHER,)
    found = result(bench)
    assert (found.winner, found.runner_up) == (OTHER, None)
    assert len(found.references) == 2


def test_the_only_candidate_without_a_reference_has_nothing_to_be_confirmed_beside(bench: ProofBench) -> None:
    ending = go(bench, 1, references=(), starts=(256,), soak=True)
    assert bench.keys(Purpose.CONFIRM) == []
    assert "Not confirmed: there is nothing to compare the only candidate with." in bench.run.progress.notes
    assert bench.keys(Purpose.SOAK) == [OTHER]
    assert ending.why == "all 1 launches are made, and it survived"


def test_where_nothing_was_measured_nothing_is_proved(bench: ProofBench) -> None:
    bench.run.launcher.plays = lambda _spec: ended(Kind.OUT_OF_MEMORY)
    ending = go(bench, soak=True)
    assert set(bench.keys()) == set(bench.keys(Purpose.SEARCH))
    assert (winner(bench), bench.run.store.confirmation()) == (None, None)
    assert ending.why == "all 7 launches are made"


def test_references_alone_are_not_confirmed_but_put_to_the_test(bench: ProofBench) -> None:
    ending = go(bench, 2, soak=True)
    assert "Not confirmed: there is no candidate to confirm." in bench.run.progress.notes
    assert bench.keys(Purpose.SOAK) == [USERS.key]
    assert ending.why == "all 2 launches are made, and it survived"


def test_without_confirmation_the_best_of_the_search_is_put_to_the_test(bench: ProofBench) -> None:
    bench.luck = {ONE: 1.08}
    go(bench, confirm_blocks=0, soak=True)
    assert bench.keys(Purpose.CONFIRM) == []
    assert bench.keys(Purpose.SOAK) == [ONE]
    assert [record.errand.round for record in bench.records(Purpose.SOAK)] == [0]


def test_without_any_proof_the_search_is_all(bench: ProofBench) -> None:
    assert go(bench, confirm_blocks=0).why == "all 7 launches are made"
    assert len(bench.keys()) == 7


# --- what is said before anybody is launched again


def test_the_end_of_a_confirmation_is_published_without_a_launch_that_follows(bench: ProofBench) -> None:
    seen: list[bool] = []
    publish = bench.run.published

    class Published(list[int]):
        def append(self, many: int) -> None:
            found = bench.run.store.confirmation()
            seen.append(found is not None and found.ended)
            publish.append(many)

    bench.run.published = Published()
    go(bench)
    assert seen[-1]
    assert seen.count(True) == 1


# --- time


def test_a_search_leaves_time_for_what_follows_and_nothing_is_launched_beyond(bench: ProofBench) -> None:
    go(bench, seconds=600.0, soak=True, confirm_blocks=4)
    searched, confirmed = bench.records(Purpose.SEARCH), bench.records(Purpose.CONFIRM)
    assert len(searched) == 7
    assert len(confirmed) == 16
    assert bench.keys(Purpose.SOAK) == [winner(bench)]
    assert bench.keys(Purpose.ENDURE) == [winner(bench)]
    assert max(bench.time.began) < 600.0
    # what is left is worked through, up to its last turn
    assert 600.0 <= bench.time.monotonic() < 625.0


@pytest.mark.parametrize(
    ("seconds", "searched", "leaders", "blocks"),
    [
        (290.0, 7, 2, 4),
        (170.0, 7, 1, 3),
        (80.0, 4, 1, 2),
    ],
)
def test_with_less_time_there_are_fewer_blocks_then_fewer_leaders(
    bench: ProofBench, seconds: float, searched: int, leaders: int, blocks: int
) -> None:
    go(
        bench,
        seconds=seconds,
        references=(DEFAULT,) if seconds < 100 else (USERS, DEFAULT),
        starts=SIZES,
        confirm_blocks=4,
    )
    plan = confirmation_of(bench).plan
    assert (len(bench.keys(Purpose.SEARCH)), len(plan.leaders), plan.blocks) == (searched, leaders, blocks)
    assert max(bench.time.began) < seconds
    assert bench.time.monotonic() <= seconds


def test_where_no_time_is_left_nothing_is_confirmed(bench: ProofBench) -> None:
    go(bench, seconds=60.0, soak=True)
    assert bench.keys(Purpose.CONFIRM) == []
    said = bench.run.progress.notes[-1]
    assert said == "Not confirmed: what is left of the time is too short to confirm anything."


def test_a_confirmation_that_time_ends_is_over_at_its_complete_blocks(bench: ProofBench) -> None:
    bench.time.launch_s = lambda before: 10.0 if before < 7 else 18.0
    ending = go(bench, seconds=300.0, confirm_blocks=4)
    confirmation = confirmation_of(bench)
    assert confirmation.plan.blocks == 4
    assert (confirmation.over_at, confirmation.ended) == (3, True)
    assert ending.why == "the time to confirm is over"
    assert result(bench).time_over
    assert result(bench).winner == OTHER
    assert bench.time.monotonic() <= 300.0
    before = len(bench.run.launched)
    assert go(bench, seconds=300.0, confirm_blocks=4).why == "the time to confirm is over"
    assert len(bench.run.launched) == before


def test_a_winner_that_there_is_no_time_to_test_is_said_not_to_be_tested(bench: ProofBench) -> None:
    bench.time.launch_s = lambda before: 10.0 if before < 4 else 60.0
    ending = go(bench, seconds=110.0, soak=True)
    assert bench.keys(*TESTED) == []
    assert ending.why.endswith(", but it could not be put to the test")


def test_launches_are_limited_by_what_is_left(bench: ProofBench) -> None:
    go(bench, seconds=600.0, soak=True, confirm_blocks=4)
    limits = [one.limit_s for one in bench.run.launcher.launched if one.work == "Benchmark"]
    # confirming leaves a quarter of the rest for the soak
    assert limits[7] == pytest.approx((600.0 - 70.0) * 0.75)
    soak = next(one for one in bench.run.launcher.launched if one.work == "Soak")
    assert soak.limit_s == pytest.approx(600.0 - 23 * 10.0)


# --- failures in the confirmation


def test_a_leader_that_fails_in_the_confirmation_is_out(bench: ProofBench) -> None:
    go(bench, confirm_blocks=0)
    bench.run.launcher.comes_to(OTHER, ended(Kind.CRASHED), ended(Kind.CRASHED))
    ending = go(bench, soak=True)
    assert ending.why == "the winner is confirmed, and it survived"
    assert winner(bench) == ONE
    assert dict(confirmation_of(bench).out) == {OTHER: "crashed: a line about crashed"}
    assert bench.keys(Purpose.CONFIRM).count(OTHER) == 2
    assert (
        f"Not confirmed: {candidate(256).summary()}: crashed: a line about crashed"
        in bench.run.progress.notes
    )


def test_a_reference_that_fails_in_the_confirmation_leaves_the_others(bench: ProofBench) -> None:
    go(bench, confirm_blocks=0)
    bench.run.launcher.comes_to(DEFAULT.key, ended(Kind.OUT_OF_MEMORY))
    go(bench)
    assert [versus.arm for versus in result(bench).references] == [USERS.key]
    assert "Not confirmed: the engine's own choice: out-of-memory: a line about out-of-memory" in (
        bench.run.progress.notes
    )


def test_where_all_leaders_fail_the_next_are_confirmed_and_nobody_twice(bench: ProofBench) -> None:
    go(bench, confirm_blocks=0)
    for key in (ONE, OTHER):
        bench.run.launcher.comes_to(key, *[ended(Kind.OUT_OF_MEMORY)] * 9)
    ending = go(bench, soak=True)
    failed = Counter(r.key for r in bench.records(Purpose.CONFIRM) if r.score is None)
    assert failed == {ONE: 1, OTHER: 1}
    assert confirmation_of(bench).round == 2
    assert confirmation_of(bench).plan.leaders == (SMALLEST,)
    assert set(confirmation_of(bench).out) == {ONE, OTHER}
    # the one that is left is slower than the user's own command
    assert (winner(bench), ending.why) == (USERS.key, "the winner is confirmed, and it survived")


def test_where_nobody_can_be_confirmed_a_reference_that_was_measured_is_left(bench: ProofBench) -> None:
    go(bench, confirm_blocks=0)
    for key in (SMALLEST, ONE, OTHER, LARGEST, THIRD):
        bench.run.launcher.comes_to(key, *[ended(Kind.OUT_OF_MEMORY)] * 9)
    ending = go(bench, soak=True)
    assert winner(bench) == USERS.key
    assert bench.keys(Purpose.SOAK) == [USERS.key]
    assert not ending.why.startswith("the winner is confirmed")
    before = len(bench.run.launched)
    go(bench, soak=True)
    assert len(bench.run.launched) == before


# --- soak and endurance


def test_a_winner_is_soaked_and_works_on_for_as_long_as_it_was_asked_for(bench: ProofBench) -> None:
    ending = go(bench, soak=True, endure_s=600.0)
    assert ending.why == "the winner is confirmed, and it survived"
    assert bench.keys(*TESTED) == [OTHER, OTHER]
    soak, endurance = (r.result.soak for r in bench.records(*TESTED) if r.result is not None)
    assert soak is not None
    assert endurance is not None
    assert 1000 < soak.longest_prompt_tokens < 2048
    assert 600.0 <= endurance.seconds < 620.0
    assert endurance.longest_gap_s == 5.0
    before = len(bench.run.launched)
    go(bench, soak=True, endure_s=600.0)
    assert len(bench.run.launched) == before


@pytest.mark.parametrize(
    ("server", "kind"), [(crashes, Kind.CRASHED), (slows_down, Kind.DEGRADED)], ids=["crashes", "slows down"]
)
def test_who_does_not_survive_its_soak_makes_way_for_the_runner_up(
    bench: ProofBench, server: Callable[[], PlayedServer], kind: Kind
) -> None:
    bench.tests[OTHER] = server
    ending = go(bench, soak=True)
    assert bench.keys(Purpose.SOAK) == [OTHER, ONE]
    assert kinds(bench.records(Purpose.SOAK)) == [kind, Kind.NONE]
    assert (winner(bench), ending.why) == (ONE, "the winner is confirmed, and it survived")
    assert confirmation_of(bench).round == 1
    said = [note for note in bench.run.progress.notes if note.startswith("Disqualified: ")]
    assert len(said) == 1
    assert said[0].startswith(f"Disqualified: {candidate(256).summary()}: {kind}")


def test_where_no_leader_survives_the_next_candidates_are_confirmed(bench: ProofBench) -> None:
    bench.tests = {OTHER: crashes, ONE: crashes}
    bench.rates |= {USERS.key: 30.0}
    ending = go(bench, soak=True, confirm_blocks=4)
    assert confirmation_of(bench).round == 2
    assert not {ONE, OTHER} & set(confirmation_of(bench).plan.leaders)
    assert bench.keys(Purpose.SOAK)[:2] == [OTHER, ONE]
    assert bench.keys(Purpose.SOAK)[2:] == [winner(bench)]
    assert winner(bench) in {SMALLEST, THIRD, LARGEST}
    assert ending.why == "the winner is confirmed, and it survived"


def test_where_nobody_survives_nobody_wins(bench: ProofBench) -> None:
    bench.tests = dict.fromkeys(RATES, crashes)
    go(bench, soak=True)
    assert winner(bench) is None
    assert sorted(bench.keys(Purpose.SOAK)) == sorted(RATES)
    before = len(bench.run.launched)
    go(bench, soak=True)
    assert len(bench.run.launched) == before


def test_who_does_not_endure_makes_way_for_the_runner_up_too(bench: ProofBench) -> None:
    bench.tests[OTHER] = crashes_later
    ending = go(bench, soak=True, endure_s=300.0)
    assert [(r.key, r.errand.purpose) for r in bench.records(*TESTED)] == [
        (OTHER, Purpose.SOAK),
        (OTHER, Purpose.ENDURE),
        (ONE, Purpose.SOAK),
        (ONE, Purpose.ENDURE),
    ]
    assert kinds(bench.records(Purpose.ENDURE)) == [Kind.CRASHED, Kind.NONE]
    assert (winner(bench), ending.why) == (ONE, "the winner is confirmed, and it survived")


def test_a_card_that_is_lost_in_a_soak_is_not_held_against_the_winner(bench: ProofBench) -> None:
    bench.run.monitor.reports = [RigReport()] * (7 + 2 * 4) + [RigReport(lost="CUDA0: GPU requires reset")]
    with pytest.raises(RigError, match="a card is gone"):
        go(bench, soak=True)
    assert go(bench, soak=True).why == "the winner is confirmed, and it survived"
    assert bench.keys(Purpose.SOAK) == [winner(bench)] * 2
    assert kinds(bench.records(Purpose.SOAK)) == [Kind.DEVICE_ERROR, Kind.NONE]


def test_a_slower_confirmation_than_was_expected_leaves_time_for_the_soak(bench: ProofBench) -> None:
    bench.time.launch_s = lambda before: 10.0 if before < 7 else 40.0
    ending = go(bench, seconds=520.0, soak=True, confirm_blocks=4)
    assert confirmation_of(bench).over_at == 2
    assert ending.why == "the time to confirm is over, and it survived"
    assert bench.keys(Purpose.SOAK) == [winner(bench)]
    assert max(bench.time.began) < 520.0


# --- more budget


def test_more_budget_searches_on_and_confirms_again(bench: ProofBench) -> None:
    go(bench, 4, starts=(64, 128, 512))
    assert winner(bench) == ONE
    first = len(bench.run.launched)
    go(bench, 4, starts=(64, 128, 512))
    assert len(bench.run.launched) == first
    go(bench, 7)
    assert confirmation_of(bench).round == 2
    assert winner(bench) == OTHER
    assert len(bench.keys(Purpose.SEARCH)) == 7
    assert [r.errand.round for r in bench.records(Purpose.CONFIRM)] == sorted(
        r.errand.round for r in bench.records(Purpose.CONFIRM)
    )
    second = len(bench.run.launched)
    for launches in (7, 4):
        go(bench, launches)
        assert len(bench.run.launched) == second


def test_more_budget_that_finds_nothing_new_leaves_what_was_confirmed(bench: ProofBench) -> None:
    go(bench, 7)
    before = len(bench.run.launched)
    ending = go(bench, 9)
    assert len(bench.run.launched) == before
    assert (confirmation_of(bench).round, ending.why) == (1, "the winner is confirmed")


def test_more_budget_that_finds_nothing_new_goes_on_with_a_confirmation_that_was_stopped(
    bench: ProofBench,
) -> None:
    interrupts = bench.run.interrupts = Requested()
    interrupts.requested = False
    bench.cut = lambda: setattr(interrupts, "requested", len(bench.run.launched) == 10)
    assert go(bench, 7).interrupted
    interrupts.requested, bench.cut = False, lambda: None
    assert go(bench, 9).why == "the winner is confirmed"
    assert [record.errand.round for record in bench.records(Purpose.CONFIRM)] == [1] * 8


def test_what_a_search_found_after_a_confirmation_wins_where_it_may_not_be_confirmed(
    bench: ProofBench,
) -> None:
    go(bench, 4, starts=(64, 128, 512))
    assert winner(bench) == ONE
    go(bench, 7, confirm_blocks=0, soak=True)
    assert winner(bench) == OTHER
    assert bench.keys(Purpose.SOAK) == [OTHER]
    assert result_of(confirmation_of(bench), bench.run.store.records()) is None


# --- cuts


def proved(bench: ProofBench) -> Ending:
    return go(bench, soak=True, endure_s=120.0)


@dataclass(frozen=True)
class Whole:
    """What a run launches that runs through, and how it ends."""

    launches: list[tuple[str, str, int, int]]
    why: str


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, empty_study: Path) -> Whole:
    """With leaders that do not survive, and all that follows."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        bench = frail(tmp_path_factory.mktemp("whole") / "study", empty_study, monkeypatch)
        why = proved(bench).why
        assert {record.errand.round for record in bench.records()} == {0, 1, 2}
        return Whole(bench.launches(), why)


def frail(folder: Path, empty_study: Path, monkeypatch: pytest.MonkeyPatch) -> ProofBench:
    folder.mkdir()
    shutil.copy(empty_study, folder / "study.db")
    bench = ProofBench.made(folder, monkeypatch, dict(RATES))
    bench.tests = {OTHER: crashes, ONE: crashes_later}
    return bench


def test_a_run_that_is_killed_in_every_trial_launches_what_one_does_that_runs_through(
    whole: Whole, tmp_path: Path, empty_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, why = whole.launches, whole.why
    bench = frail(tmp_path / "cut", empty_study, monkeypatch)
    killed: set[int] = set()

    def kill() -> None:
        made = len(bench.launches())
        if made not in killed:
            killed.add(made)
            raise Killed

    bench.cut = kill
    for _ in range(len(expected)):
        with pytest.raises(Killed):
            proved(bench)
        bench.run.store = StudyStore.open(bench.run.folder / "study.db")
    assert proved(bench).why == why
    assert bench.launches() == expected
    assert len(bench.records()) == 2 * len(expected)


def test_a_run_that_is_stopped_after_every_trial_launches_what_one_does_that_runs_through(
    whole: Whole, tmp_path: Path, empty_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole.launches
    bench = frail(tmp_path / "cut", empty_study, monkeypatch)
    interrupts = bench.run.interrupts = Requested()
    for _ in expected:
        interrupts.requested = False
        bench.cut = lambda: setattr(interrupts, "requested", True)
        assert proved(bench).interrupted
        bench.run.store = StudyStore.open(bench.run.folder / "study.db")
    assert bench.launches() == expected
    interrupts.requested = False
    bench.cut = lambda: None
    proved(bench)
    assert bench.launches() == expected


def test_a_run_that_is_stopped_in_every_trial_launches_what_one_does_that_runs_through(
    whole: Whole, tmp_path: Path, empty_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endurance that was stopped counts for as long as it went on."""
    expected = whole.launches
    bench = frail(tmp_path / "cut", empty_study, monkeypatch)
    interrupts = bench.run.interrupts = Requested()
    stopped: set[int] = set()

    def stops() -> bool:
        made = len(bench.launches())
        interrupts.requested = made not in stopped
        stopped.add(made)
        return interrupts.requested

    bench.run.launcher.stops = lambda _launched: stops()
    for _ in range(2 * len(expected)):
        interrupts.requested = False
        if not proved(bench).interrupted:
            break
    found = bench.launches()
    assert [one for one in found if one[1] != "endure"] == [one for one in expected if one[1] != "endure"]


def test_a_soak_that_was_stopped_is_made_again(bench: ProofBench) -> None:
    interrupts = bench.run.interrupts = Requested()
    interrupts.requested = False

    def stops() -> bool:
        interrupts.requested = not bench.records(Purpose.SOAK)[:-1]
        return interrupts.requested

    bench.run.launcher.stops = lambda launched: launched.work == "Soak" and stops()
    assert go(bench, soak=True).interrupted
    interrupts.requested = False
    assert go(bench, soak=True).why == "the winner is confirmed, and it survived"
    assert kinds(bench.records(Purpose.SOAK)) == [Kind.STOPPED, Kind.NONE]


def test_an_endurance_of_a_tuner_that_was_killed_counts_by_what_it_wrote_down(bench: ProofBench) -> None:
    class Dies(PlayedServer):
        def idle(self, seconds: float) -> None:
            super().idle(seconds)
            if len(self.gaps_s) == 10:
                raise Killed

    bench.tests[OTHER] = lambda: Dies(slot_context=2048)
    with pytest.raises(Killed):
        go(bench, soak=True, endure_s=300.0)
    number = bench.records()[-1].number
    written = TrialFolder.of(bench.run.folder, number).soaked()
    assert written is not None
    assert 50 < written.seconds < 100
    bench.tests = {}
    go(bench, soak=True, endure_s=300.0)
    cut, rest = bench.records(Purpose.ENDURE)
    assert cut.result is not None
    assert (cut.result.soak, cut.wall_s) == (written, written.seconds)
    assert rest.result is not None
    assert rest.result.soak is not None
    assert rest.result.soak.seconds == pytest.approx(300.0 - written.seconds, abs=10.0)
    said = endurance_document(OTHER, bench.records())
    assert said is not None
    assert said["requests"] == written.requests + rest.result.soak.requests


def test_the_hours_of_a_killed_endurance_are_hours_of_the_budget(bench: ProofBench) -> None:
    class Dies(PlayedServer):
        def idle(self, seconds: float) -> None:
            super().idle(seconds)
            if len(self.gaps_s) == 100:
                raise Killed

    bench.tests[OTHER] = lambda: Dies(slot_context=2048)
    with pytest.raises(Killed):
        go(bench, seconds=2000.0, soak=True)
    bench.tests = {}
    go(bench, seconds=2000.0, soak=True)
    assert sum(record.wall_s for record in bench.records()) == pytest.approx(2000.0, abs=40.0)


# --- answers


@dataclass
class Telling(AnsweringServer):
    """Says what comes next, too, as far off as it is told."""

    off_nats: float = 0.0

    def next_token(self, text: str) -> NextToken | None:
        return next_token(text, self.off_nats)


def test_one_whose_answers_are_nonsense_never_wins_though_it_is_faster(bench: ProofBench) -> None:
    bench.run.quality_s = 1.0
    bench.rates[LARGEST] = 60.0
    plays = bench.run.launcher.plays

    def says(spec: LaunchSpec) -> LaunchResult:
        text = "0000" * 40 if spec.key == LARGEST else "It is a sentence of more than forty characters."
        found = plays(spec)
        return replace(found, samples=tuple(replace(one, text=text) for one in found.samples))

    bench.run.launcher.plays = says
    go(bench, soak=True)
    odd = next(record for record in bench.records() if record.key == LARGEST)
    assert kinds([odd]) == [Kind.DEGRADED]
    assert odd.score == pytest.approx(60.0, rel=0.05)
    assert LARGEST not in bench.keys(Purpose.CONFIRM, *TESTED)
    assert winner(bench) == OTHER


def test_one_whose_next_tokens_are_far_off_the_references_never_wins_though_it_is_faster(
    bench: ProofBench,
) -> None:
    bench.run.quality_s = 0.05
    bench.rates[LARGEST] = 60.0
    bench.run.launcher.server = lambda spec, result: Telling(
        list(result.samples), off_nats=0.03 if spec.key == LARGEST else 0.001
    )
    go(bench, references=(DEFAULT,), confirm_blocks=2)
    first, *others = bench.records(Purpose.SEARCH)
    assert first.key == DEFAULT.key
    assert (bench.run.folder / "trials" / "0" / "probe.json").exists()
    odd = next(record for record in others if record.key == LARGEST)
    assert odd.outcome is not None
    assert "nats off the plain reference's" in odd.outcome.evidence
    assert LARGEST not in bench.keys(Purpose.CONFIRM)
    assert winner(bench) == OTHER
    good = next(record for record in bench.records(Purpose.CONFIRM) if record.key == OTHER)
    assert good.result is not None
    assert good.result.quality is not None
    assert good.result.quality.objection is None


def test_one_that_answers_nonsense_only_in_the_confirmation_does_not_win_either(bench: ProofBench) -> None:
    bench.run.quality_s = 0.05
    bench.run.launcher.server = lambda spec, result: Telling(
        list(result.samples), off_nats=0.03 if spec.key == OTHER and len(bench.run.launched) > 7 else 0.0
    )
    go(bench)
    assert "nats off the plain reference's" in confirmation_of(bench).out[OTHER]
    assert winner(bench) == ONE
