"""What is on disk of a trial at each step, also when a step was cut."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.support.known_proofs import SOAKED
from tests.support.strategies import PROPERTY, launch_results
from tests.support.trials import a_sample, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT, LaunchPlan, LaunchResult, LaunchSpec
from tuner.core.memory.need import DeviceNeed, Prediction
from tuner.core.outcome import Outcome
from tuner.core.telemetry import GpuReading
from tuner.errors import ResultsError
from tuner.runs.trial_folder import (
    LOG_TAIL_BYTES,
    LaunchedProcess,
    TrialFolder,
    remove_half_written,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from pathlib import Path

CANDIDATE = Candidate.of({"split-mode": "layer", "tensor-split": (24, 7)})
PLAN = LaunchPlan(
    argv=("llama-server", "-m", "a.gguf"),
    environment_changes={"GGML_CUDA_ALLREDUCE": "nccl"},
    port=1234,
    api_key="key",
    token="token",
)


@pytest.fixture
def folder(tmp_path: Path) -> TrialFolder:
    folder = TrialFolder.of(tmp_path, 3)
    folder.journal(LaunchSpec(CANDIDATE), PLAN)
    return folder


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> TrialFolder:
    """One folder for all examples of a property."""
    return TrialFolder(tmp_path_factory.mktemp("trial"))


def test_a_trial_has_a_folder_of_its_number(tmp_path: Path) -> None:
    folder = TrialFolder.of(tmp_path, 12)
    assert folder.path == tmp_path / "trials" / "12"
    assert folder.log_path == tmp_path / "trials" / "12" / "server.log"
    assert not folder.path.exists()
    assert (folder.process(), folder.result()) == (None, None)


# --- step by step


def test_a_journalled_launch_has_a_token_before_it_has_a_process(folder: TrialFolder) -> None:
    assert folder.process() == LaunchedProcess(pid=0, started_at=0.0, token="token")
    assert folder.result() is None


def test_the_journal_says_what_was_launched(folder: TrialFolder) -> None:
    assert json.loads((folder.path / "launch.json").read_text(encoding="utf-8")) == {
        "label": CANDIDATE.summary(),
        "candidate": CANDIDATE.to_json(),
        "reference": None,
        "argv": list(PLAN.argv),
        "environment": {"GGML_CUDA_ALLREDUCE": "nccl"},
        "token": "token",
        "memory_mib": None,
    }


def test_a_reference_is_journalled_too(tmp_path: Path) -> None:
    folder = TrialFolder.of(tmp_path, 0)
    folder.journal(LaunchSpec(None, ENGINE_DEFAULT), PLAN)
    document = json.loads((folder.path / "launch.json").read_text(encoding="utf-8"))
    assert (document["candidate"], document["reference"]) == (None, ENGINE_DEFAULT)


def test_a_process_is_known_by_pid_start_and_token(folder: TrialFolder) -> None:
    folder.record_process(4711, 1700000000.25)
    assert folder.process() == LaunchedProcess(4711, 1700000000.25, "token")


@PROPERTY
@given(result=launch_results)
def test_a_result_comes_back_whole(shared: TrialFolder, result: LaunchResult) -> None:
    shared.record_result(result, 12.5)
    assert shared.result() == (result, 12.5)


def test_answers_are_kept_as_they_are(folder: TrialFolder) -> None:
    result = LaunchResult(Outcome(), (a_sample(text="größer 🦙\n\x00"),))
    folder.record_result(result, 1.0)
    assert folder.result() == (result, 1.0)
    assert "größer 🦙" in (folder.path / "result.json").read_text(encoding="utf-8")


def test_a_trial_can_be_journalled_twice(folder: TrialFolder) -> None:
    folder.journal(LaunchSpec(CANDIDATE), PLAN)
    assert folder.process() is not None


# --- what a power failure leaves


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"x"', b'{"outcome": {}}'])
def test_a_damaged_result_is_none(folder: TrialFolder, content: bytes) -> None:
    (folder.path / "result.json").write_bytes(content)
    assert folder.result() is None


@pytest.mark.parametrize("missing", ["wall_s", "samples", "outcome", "free_mib"])
def test_a_result_without_a_field_is_none(folder: TrialFolder, missing: str) -> None:
    document = {**measured(40.0).to_json(), "wall_s": 1.0}
    del document[missing]
    write_json(folder.path / "result.json", document)
    assert folder.result() is None


def test_a_damaged_journal_is_no_launch(folder: TrialFolder) -> None:
    (folder.path / "launch.json").write_text('{"token": "to')
    assert folder.process() is None


def test_a_damaged_process_leaves_the_token(folder: TrialFolder) -> None:
    (folder.path / "process.json").write_text('{"pid": 47')
    assert folder.process() == LaunchedProcess(0, 0.0, "token")


# --- writing


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(ResultsError, match=rf"^{path} cannot be written: No space left on device$"):
        write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="No such file or directory"):
        write_text(tmp_path / "gone" / "a.txt", "x")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "trials").write_text("a file where the folder should be")
    with pytest.raises(ResultsError, match="trials/0"):
        TrialFolder.of(tmp_path, 0).journal(LaunchSpec(CANDIDATE), PLAN)


def test_others_may_read_what_was_written(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "x")
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_what_a_killed_tuner_was_writing_is_removed_and_nothing_else(tmp_path: Path) -> None:
    trial = tmp_path / "trials" / "0"
    trial.mkdir(parents=True)
    kept = [tmp_path / "best.json", tmp_path / "my.new", trial / "result.json"]
    cut = [tmp_path / ".best.json.abc.new", trial / ".result.json.x.new"]
    for path in (*kept, *cut):
        path.touch()
    remove_half_written(tmp_path)
    assert [path.exists() for path in kept] == [True] * 3
    assert [path.exists() for path in cut] == [False] * 2


# --- what a server goes through, as it goes on


def test_what_a_server_has_gone_through_is_what_was_written_last(folder: TrialFolder) -> None:
    assert folder.soaked() is None
    for seconds in (1.0, 2.0):
        folder.record_soaked(replace(SOAKED, seconds=seconds))
    assert folder.soaked() == replace(SOAKED, seconds=2.0)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"requests": 1}', b'{"surprise": 1}'])
def test_a_damaged_soak_is_none(folder: TrialFolder, content: bytes) -> None:
    (folder.path / "soak.json").write_bytes(content)
    assert folder.soaked() is None


# --- what readers of a study take from it


def test_what_was_predicted_comes_back_by_device_and_part(tmp_path: Path, folder: TrialFolder) -> None:
    need = DeviceNeed(weights=50.0, kv=19.04, runtime=4.0, sigma=2.0)
    prediction = Prediction({"RPC0": need}, (), 28.0, "tuner")
    predicted = TrialFolder.of(tmp_path, 8)
    predicted.journal(LaunchSpec(CANDIDATE), PLAN, prediction)
    assert predicted.predicted_mib()["RPC0"]["weights"] == 50.0
    assert predicted.predicted_mib()["RPC0"]["total"] == 73.0
    assert folder.predicted_mib() == {}
    assert TrialFolder.of(tmp_path, 99).predicted_mib() == {}


def test_readings_come_back_and_a_line_that_was_cut_is_left_out(folder: TrialFolder) -> None:
    rows = [GpuReading("CUDA0", 0.2 * step, utilisation_pct=40 + step) for step in range(3)]
    text = "".join(json.dumps(row.to_json()) + "\n" for row in rows)
    (folder.path / "telemetry.jsonl").write_text(text + '{"device": "CUDA0", "ti', encoding="utf-8")
    assert folder.readings() == tuple(rows)
    (folder.path / "telemetry.jsonl").unlink()
    assert folder.readings() == ()


def test_the_end_of_a_log_is_whole_lines_and_no_more_than_is_kept(folder: TrialFolder) -> None:
    assert folder.log_tail() == ""
    folder.log_path.write_bytes(b"one\ntwo \xff\n")
    assert folder.log_tail() == "one\ntwo \ufffd\n"
    lines = [f"line {number}\n" for number in range(2000)]
    folder.log_path.write_text("".join(lines), encoding="utf-8")
    tail = folder.log_tail()
    assert LOG_TAIL_BYTES - 20 < len(tail) <= LOG_TAIL_BYTES
    assert tail.splitlines(keepends=True) == lines[-len(tail.splitlines()) :]
