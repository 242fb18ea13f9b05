"""A whole run over a played engine and rig: what is launched when, what is on disk when, and how it ends."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.launch_bench import NeverInterrupted
from tests.support.played_run import (
    BOUND,
    DEFAULT,
    IDENTITY,
    PID,
    USERS,
    PlayedRun,
    Requested,
    candidate,
)
from tests.support.trials import a_record, ended, measured
from tests.support.tuner_command import kinds
from tuner.core.interrupt import Interrupted
from tuner.core.launch import LaunchResult, LaunchSpec
from tuner.core.monitoring import RigReport
from tuner.core.outcome import Kind, Outcome
from tuner.core.telemetry import GpuSummary
from tuner.core.trial import Errand, Purpose, best_of
from tuner.errors import EngineError, ResultsError, RigError
from tuner.runs import launching as launching_module
from tuner.runs.trial_folder import TrialFolder
from tuner.search.coordinates import coordinates
from tuner.study import Kept, StudyStore

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.core.trial import TrialRecord

HOT = RigReport(
    {"CUDA0": GpuSummary(samples=100, loaded_samples=90, span_s=20.0, throttle={"hw-thermal": 0.4})}
)
ONE, OTHER = candidate(128).key(), candidate(256).key()


@pytest.fixture(scope="module")
def empty_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: SQLite and Optuna's tables take most of a test's time."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    StudyStore.for_run(path, IDENTITY, {})
    return path


@pytest.fixture
def run(tmp_path: Path, empty_study: Path) -> PlayedRun:
    shutil.copy(empty_study, tmp_path / "study.db")
    return PlayedRun(tmp_path)


def record_before(run: PlayedRun, spec: LaunchSpec, result: LaunchResult | None, wall_s: float = 0.0) -> int:
    """A trial of an earlier run; without a result its tuner was killed in it."""
    place = [] if spec.candidate is None else coordinates(BOUND, spec.candidate)
    number = run.store.begin(spec, place, argv=["llama-server"], environment={})
    if result is not None:
        record = a_record(number, spec.candidate, result, reference=spec.reference, wall_s=wall_s)
        run.store.finish(record)
    return number


# --- what is launched when


def test_references_come_first_then_starts_then_the_samplers_proposals(run: PlayedRun) -> None:
    ending = run.go(6, references=(USERS, DEFAULT), starts=(128, 256))
    assert ending.why == "all 6 launches are made"
    assert not ending.interrupted
    assert run.launched[:4] == [USERS.key, DEFAULT.key, ONE, OTHER]
    reasons = [why for _, _, why in run.progress.begun]
    assert reasons[:4] == ["reference", "reference", "start 128", "start 256"]
    assert reasons[4].startswith("the speed model expects ")
    assert reasons[5] == "the sampler's proposal"
    assert len(set(run.launched)) == 6


def test_what_failed_by_bad_luck_comes_again_before_anything_new(run: PlayedRun) -> None:
    run.launcher.comes_to(USERS.key, ended(Kind.RPC_LOST))
    run.launcher.comes_to(ONE, ended(Kind.CRASHED), ended(Kind.CRASHED))
    run.go(6, references=(USERS, DEFAULT), starts=(128, 256))
    assert run.launched == [USERS.key, USERS.key, DEFAULT.key, ONE, ONE, OTHER]
    assert [why for _, _, why in run.progress.begun][3:] == ["start 128", "again", "start 256"]


def test_what_cannot_do_better_does_not_come_again(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, ended(Kind.OUT_OF_MEMORY))
    run.go(2, starts=(128, 256))
    assert run.launched == [ONE, OTHER]


def test_space_that_is_used_up_ends_the_run(run: PlayedRun) -> None:
    assert run.go(references=(DEFAULT,)).why == "everything in the search space was tried"
    assert sorted(run.launched[1:]) == sorted(candidate(size).key() for size in (64, 128, 256, 512, 1024))


def test_request_to_stop_ends_the_run_between_launches(run: PlayedRun) -> None:
    run.interrupts = Requested()
    ending = run.go(starts=(128,))
    assert (ending.why, ending.interrupted) == ("asked to stop", True)
    assert run.launched == []


# --- disturbances


def test_disturbed_launch_comes_again_twice_and_then_stands(run: PlayedRun) -> None:
    run.monitor.reports = [HOT, HOT, HOT]
    run.go(4, starts=(128, 256))
    assert run.launched == [ONE, ONE, ONE, OTHER]
    records = run.store.records()
    assert kinds(records) == [Kind.DISTURBED, Kind.DISTURBED, Kind.NONE, Kind.NONE]
    assert records[0].score is None
    assert records[2].may_win
    assert records[2].outcome is not None
    assert records[2].outcome.evidence.startswith("measured though disturbed each time: CUDA0 throttled")


def test_disturbed_reference_comes_again_too(run: PlayedRun) -> None:
    run.monitor.reports = [HOT]
    run.go(3, references=(DEFAULT,), starts=(128,))
    assert run.launched == [DEFAULT.key, DEFAULT.key, ONE]


def test_launch_that_the_machine_slept_in_comes_again(
    run: PlayedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slept:
        def slept_s(self) -> float | None:
            return 7200.0 if len(run.launched) == 1 else None

    monkeypatch.setattr(launching_module, "SleepWatch", Slept)
    run.go(2, starts=(128,))
    assert run.launched == [ONE, ONE]
    assert kinds(run.store.records()) == [Kind.DISTURBED, Kind.NONE]


def test_clocks_of_the_study_are_those_of_its_measured_trials(run: PlayedRun) -> None:
    def at(clock_mhz: float) -> RigReport:
        return RigReport(
            {"CUDA0": GpuSummary(samples=99, loaded_samples=90, span_s=20.0, sm_clock_mhz=clock_mhz)}
        )

    run.monitor.reports = [at(2800.0), at(2000.0), at(2790.0)]
    run.go(3, starts=(128, 256))
    first, slow, again = run.store.records()
    assert kinds([first, slow, again]) == [Kind.NONE, Kind.DISTURBED, Kind.NONE]
    assert slow.outcome is not None
    assert slow.outcome.evidence == "CUDA0 ran at 2,000 MHz under load, 2,800 MHz in earlier trials"


# --- the rig around a launch


def test_rig_is_ready_before_and_compared_after_each_launch(run: PlayedRun) -> None:
    run.monitor.sentences = ["CUDA0 has less memory than before"]
    run.launcher.comes_to(ONE, replace(measured(50.0), load_s=3.0, requests_s=5.0, warmup_s=0.5))
    run.go(2, starts=(128, 256))
    assert run.monitor.calls == ["ready", "begin", "end"] * 2
    assert run.progress.notes == run.monitor.sentences * 2
    # what the cards did while loading and warming up is not the candidate's
    assert run.monitor.ended[0] == (3.5, 8.0, PID, run.folder / "trials" / "0" / "telemetry.jsonl")


def test_telemetry_is_kept_with_the_trial(run: PlayedRun) -> None:
    cool = GpuSummary(samples=100, loaded_samples=90, span_s=20.0, watts=300.0)
    run.monitor.reports = [RigReport({"CUDA0": cool})]
    run.go(1, starts=(128,))
    (record,) = run.store.records()
    found = TrialFolder.of(run.folder, 0).result()
    assert record.result is not None
    assert found is not None
    assert record.result.telemetry == found[0].telemetry == {"CUDA0": cool}


def test_candidate_that_leaves_too_little_free_ran_out_of_memory(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, replace(measured(50.0), free_mib={"CUDA0": 100}))
    run.go(2, starts=(128, 256))
    assert kinds(run.store.records()) == [Kind.OUT_OF_MEMORY, Kind.NONE]


# --- ends before its time


def test_three_hangs_in_a_row_end_the_run_and_all_are_recorded(run: PlayedRun) -> None:
    for key in (ONE, OTHER):
        run.launcher.comes_to(key, ended(Kind.HUNG), ended(Kind.HUNG))
    with pytest.raises(RigError, match="3 launches in a row ended with hung"):
        run.go(starts=(128, 256))
    assert run.launched == [ONE, ONE, OTHER]
    assert kinds(run.store.records()) == [Kind.HUNG] * 3
    assert run.published == [0, 1, 2, 3]
    assert run.progress.ended == [0, 1, 2]


def test_lost_card_ends_the_run_at_once(run: PlayedRun) -> None:
    run.monitor.reports = [RigReport(lost="CUDA0: GPU requires reset")]
    with pytest.raises(RigError, match="a card is gone: GPU is lost: CUDA0"):
        run.go(starts=(128, 256))
    assert kinds(run.store.records()) == [Kind.DEVICE_ERROR]


def test_engine_that_refuses_a_reference_is_tried_with_candidates(run: PlayedRun) -> None:
    run.launcher.comes_to(DEFAULT.key, ended(Kind.BAD_FLAG))
    run.launcher.comes_to(ONE, ended(Kind.BAD_FLAG))
    with pytest.raises(EngineError, match="trial 1: bad-flag"):
        run.go(references=(DEFAULT,), starts=(128, 256))
    assert run.launched == [DEFAULT.key, ONE]


def test_full_disk_ends_the_run_before_a_launch(run: PlayedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def check_room(folder: Path) -> None:
        if len(run.launched) == 1:
            raise ResultsError(f"{folder}: 3 MiB are free")

    monkeypatch.setattr(launching_module, "check_room", check_room)
    with pytest.raises(ResultsError, match="3 MiB are free"):
        run.go(starts=(128, 256))
    assert kinds(run.store.records()) == [Kind.NONE]


# --- what is on disk when


def test_launch_is_journalled_before_it_is_made_and_its_process_at_once(run: PlayedRun) -> None:
    seen: list[tuple[int, bool]] = []

    def look(log_path: Path) -> None:
        (record,) = run.store.records()
        process = TrialFolder(log_path.parent).process()
        assert process is not None
        assert process.token == f"token {ONE}"
        seen.append((process.pid, record.result is None))

    run.launcher.meanwhile = look
    run.go(1, starts=(128,))
    assert seen == [(0, True)]
    process = TrialFolder.of(run.folder, 0).process()
    assert process is not None
    assert (process.pid, process.started_at) == (PID, 1000.5)


def test_result_is_in_its_folder_before_the_study_has_it(
    run: PlayedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = run.store.finish
    on_disk: list[Kind | None] = []

    def look(record: TrialRecord, kept: Kept) -> None:
        found = TrialFolder.of(run.folder, record.number).result()
        on_disk.append(None if found is None else found[0].outcome.kind)
        finish(record, kept)

    monkeypatch.setattr(run.store, "finish", look)
    run.monitor.reports = [HOT]
    run.go(2, starts=(128,))
    # as it was judged, not as the launch saw it
    assert on_disk == [Kind.DISTURBED, Kind.NONE]


def test_trial_is_recorded_with_its_command_and_environment(run: PlayedRun) -> None:
    run.go(1, starts=(128,))
    (record,) = run.store.records()
    assert record.argv == ("llama-server", ONE)
    assert record.environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert record.wall_s > 0
    assert [sample.text for sample in run.progress.samples] == ["def f(): pass"]


def test_everything_is_published_before_the_first_and_after_each_trial(run: PlayedRun) -> None:
    run.go(2, starts=(128, 256))
    assert run.published == [0, 1, 2]
    assert run.progress.ended == [0, 1]


# --- after a kill


def test_trial_that_was_cut_off_is_stopped_and_comes_again(run: PlayedRun) -> None:
    record_before(run, LaunchSpec(candidate(128)), None)
    run.go(1, starts=(256,))
    first, again = run.store.records()
    assert first.outcome == Outcome(Kind.STOPPED, evidence="the tuner was killed during this trial")
    assert again.key == ONE
    assert run.progress.notes == ["trial 0 was cut off when the tuner was killed"]
    assert run.published[0] == 1


def test_trial_whose_result_was_on_disk_is_recorded_with_it(run: PlayedRun) -> None:
    number = record_before(run, LaunchSpec(candidate(128)), None)
    folder = TrialFolder.of(run.folder, number)
    folder.path.mkdir(parents=True)
    folder.record_result(measured(44.0), 12.5)
    run.go(2, starts=(128, 256))
    settled, _ = run.store.records()
    assert settled.score == pytest.approx(44.0)
    assert settled.wall_s == 12.5
    assert run.launched == [OTHER]
    assert run.progress.notes == []


def test_engine_that_vanishes_leaves_a_trial_that_the_next_run_settles(run: PlayedRun) -> None:
    def vanish(_log_path: Path) -> None:
        raise EngineError("llama-server cannot be started")

    run.launcher.meanwhile = vanish
    with pytest.raises(EngineError):
        run.go(starts=(128,))
    assert kinds(run.store.records()) == [None]
    run.launcher.meanwhile = lambda _log_path: None
    run.go(1, starts=(128,))
    assert kinds(run.store.records()) == [Kind.STOPPED, Kind.NONE]
    assert run.launched == [ONE, ONE]


# --- budgets


def test_launches_of_earlier_runs_count(run: PlayedRun) -> None:
    run.go(2, starts=(128, 256))
    assert run.go(2, starts=(128, 256)).why == "all 2 launches are made"
    assert len(run.launched) == 2


def test_time_of_earlier_runs_counts(run: PlayedRun) -> None:
    record_before(run, LaunchSpec(candidate(128)), measured(50.0), 100.0)
    assert run.go(seconds=90.0).why == "its time of 1.5 min is used up"
    assert run.go(seconds=150.0).why == "what is left of its time is too short for another launch"
    assert run.launched == []


def test_launch_is_limited_by_the_time_that_is_left(run: PlayedRun) -> None:
    record_before(run, LaunchSpec(candidate(128)), measured(50.0), 100.0)
    run.go(2, seconds=1000.0, starts=(256,))
    run.go(3, starts=(64,))
    limited, unlimited = run.launcher.launched
    assert limited.limit_s == pytest.approx(900.0, abs=10.0)
    assert unlimited.limit_s is None


def test_launch_is_told_of_the_slowest_load_so_far(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, replace(measured(50.0), load_s=7.0))
    run.launcher.comes_to(OTHER, replace(measured(50.0), load_s=4.0))
    run.launcher.comes_to(candidate(64).key(), replace(ended(Kind.TIMED_OUT), load_s=900.0))
    run.go(4, starts=(128, 256, 64))
    assert [one.slowest_load_s for one in run.launcher.launched] == [None, 7.0, 7.0, 7.0]


# --- a launch beside search and proof


def test_a_launch_for_another_purpose_is_recorded_and_does_not_count_as_searched(run: PlayedRun) -> None:
    run.launcher.comes_to(ONE, measured(40.0))
    run.launcher.comes_to(OTHER, measured(90.0))
    run.go(1, starts=(128,))
    record_before(run, LaunchSpec(candidate(64)), None)
    errand = Errand(Purpose.COMPARE, 1, 2)
    record = run.tuner().measure(LaunchSpec(candidate(256)), "side by side", errand, limit_s=30.0)
    assert record is not None
    assert (record.errand, record.score) == (errand, 90.0)
    assert run.launcher.launched[-1].limit_s == 30.0
    assert run.progress.begun[-1] == (record.number, OTHER, "side by side")
    records = run.store.records()
    assert kinds(records) == [Kind.NONE, Kind.STOPPED, Kind.NONE]  # what a killed tuner left is settled first
    best = best_of(records)
    assert best is not None
    assert best.key == ONE


def test_nothing_is_launched_once_somebody_has_asked_to_stop(run: PlayedRun) -> None:
    class Stopping(NeverInterrupted):
        def sleep(self, _seconds: float) -> None:
            raise Interrupted

    run.interrupts = Stopping()
    run.monitor.ready = lambda sleep: [str(sleep(1.0))]  # type: ignore[method-assign]  # cards cool down
    made = run.tuner().measure(LaunchSpec(candidate(256)), "", Errand(Purpose.STRETCH))
    assert made is None
    assert run.launched == []
