"""The record on disk, and a sampler that proposes the same after every interruption."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.models import splits_of
from tests.support.trials import a_record, a_sample, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import ENGINE_DEFAULT, LaunchResult, LaunchSpec
from tuner.core.outcome import Kind, Outcome
from tuner.core.space import Choice, FloatRange, IntRange, SearchSpace, Split
from tuner.errors import StudyError
from tuner.search.coordinates import BoundSpace, complete, coordinates, draw
from tuner.study import STUDY_FORMAT, StudyStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.trial import TrialRecord

ROOT = Path(__file__).parents[1]
IDENTITY = StudyIdentity({"model": Part("m1", "a.gguf"), "engine": Part("e1", "build 11434")})
FACTS = {"model": {"n_layers": 64}}
WITH_DRAFTS = (("spec-type", ("draft-mtp",)),)
BOUND = BoundSpace(
    SearchSpace(
        "s",
        "",
        parameters=(
            Choice("split-mode", ("layer", "tensor"), "layer"),
            Split("tensor-split", None, 20),
            Choice("kv-unified", (False, True), default=False),
            Choice("spec-type", ("none", "draft-mtp"), "none"),
            IntRange("spec-draft-n-max", 1, 7, 2, 3, WITH_DRAFTS),
            FloatRange("spec-draft-p-min", 0.1, 0.9, 0.05, 0.1, WITH_DRAFTS),
        ),
    ),
    ("CUDA0", "CUDA1"),
    splits_of(66),
    {},
)


@pytest.fixture(scope="session")
def empty_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: SQLite and Optuna's tables take most of a test's time."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    StudyStore.for_run(path, IDENTITY, FACTS)
    return path


@pytest.fixture
def path(empty_study: Path, tmp_path: Path) -> Path:
    """A study without a trial."""
    copy = tmp_path / "study.db"
    shutil.copy(empty_study, copy)
    return copy


def proposals(store: StudyStore, count: int = 3, seed: int = 7) -> list[Candidate]:
    """What the sampler says; each is refused, so that it goes on."""
    sampler = store.sampler(seed)
    found = []
    for _ in range(count):
        proposal = sampler.ask()
        found.append(draw(BOUND, proposal.suggest))
        proposal.refuse()
    return found


def launch(
    store: StudyStore,
    candidate: Candidate | None,
    result: LaunchResult | None,
    *,
    environment: Mapping[str, str] | None = None,
) -> TrialRecord:
    """One trial from beginning to end; without a result it goes on running."""
    spec = LaunchSpec(candidate, None if candidate is not None else ENGINE_DEFAULT)
    place = [] if candidate is None else coordinates(BOUND, candidate)
    number = store.begin(spec, place, argv=["llama-server", "-m", "a.gguf"], environment=environment or {})
    record = a_record(number, candidate, result, reference=spec.reference, wall_s=12.5)
    if result is not None:
        store.finish(record)
    return record


def some_candidate(number: int) -> Candidate:
    """Another one for each number below 60; even ones by layer, odd ones by tensor."""
    mode = "tensor" if number % 2 else "layer"
    drafts = "draft-mtp" if number % 3 else "none"
    split = (1 + number, 65 - number)
    return complete(BOUND, {"split-mode": mode, "tensor-split": split, "spec-type": drafts})


def many(store: StudyStore, count: int, first: int = 0) -> None:
    """Trials of every kind of outcome, as a run would make them."""
    kinds = [Kind.NONE, Kind.OUT_OF_MEMORY, Kind.NONE, Kind.RPC_LOST, Kind.DEGRADED, Kind.CRASHED]
    for number in range(first, first + count):
        kind = kinds[number % len(kinds)]
        counts = kind in {Kind.NONE, Kind.DEGRADED}
        launch(store, some_candidate(number), measured(20.0 + number, kind) if counts else ended(kind))


def resume(path: Path) -> StudyStore:
    return StudyStore.for_run(path, IDENTITY, FACTS)


# --- a new study


def test_a_new_study_has_no_trial(tmp_path: Path) -> None:
    store = StudyStore.for_run(tmp_path / "study.db", IDENTITY, FACTS)
    assert store.records() == []
    assert store.identity == IDENTITY
    assert store.facts == FACTS
    assert StudyStore.open(tmp_path / "study.db").facts == FACTS


def test_a_study_that_was_cut_off_while_it_was_made_is_made(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.touch()  # as SQLite leaves it when its tuner dies before the first commit
    assert StudyStore.for_run(path, IDENTITY, FACTS).facts == FACTS


# --- trials


def test_a_trial_comes_back_as_it_was_recorded(path: Path) -> None:
    store = StudyStore.open(path)
    candidate = some_candidate(1)
    sample = a_sample(draft_n=10, draft_n_accepted=7, text="")
    result = LaunchResult(Outcome(Kind.NONE), (sample,), load_s=3.5, exit_code=0, buffers_mib={"CUDA0": 1.5})
    record = launch(store, candidate, result, environment={"GGML_CUDA_ALLREDUCE": "nccl"})
    (found,) = StudyStore.open(path).records()
    assert (found.candidate, found.result, found.wall_s) == (candidate, result, 12.5)
    assert (found.number, found.reference, found.argv) == (0, None, ("llama-server", "-m", "a.gguf"))
    assert dict(found.environment) == {"GGML_CUDA_ALLREDUCE": "nccl"}
    assert found.key == record.key


def test_answers_stay_out_of_the_record(path: Path) -> None:
    store = StudyStore.open(path)
    launch(store, None, LaunchResult(Outcome(), (a_sample(text="a long answer"),)))
    assert b"a long answer" not in path.read_bytes()


def test_a_reference_is_no_point_of_the_space(path: Path) -> None:
    store = StudyStore.open(path)
    launch(store, None, measured(40.0))
    (found,) = store.records()
    assert (found.candidate, found.reference) == (None, ENGINE_DEFAULT)
    assert found.score == pytest.approx(40.0)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_outcome_can_be_recorded(path: Path, kind: Kind) -> None:
    store = StudyStore.open(path)
    result = measured(40.0, kind) if kind in {Kind.NONE, Kind.DEGRADED} else ended(kind)
    record = launch(store, some_candidate(1), result)
    (found,) = store.records()
    assert (found.outcome, found.state, found.score) == (result.outcome, record.state, record.score)


def test_a_measured_trial_without_a_token_can_be_recorded(path: Path) -> None:
    store = StudyStore.open(path)
    launch(store, some_candidate(0), LaunchResult(Outcome()))
    assert store.records()[0].outcome == Outcome()


def test_numbers_count_up(path: Path) -> None:
    store = StudyStore.open(path)
    assert [launch(store, None, None).number for _ in range(3)] == [0, 1, 2]
    assert [record.number for record in store.records()] == [0, 1, 2]


def test_a_trial_ends_once(path: Path) -> None:
    store = StudyStore.open(path)
    record = launch(store, None, measured(40.0))
    with pytest.raises(StudyError, match="trial 0 is not running"):
        store.finish(record)
    with pytest.raises(StudyError, match="trial 5 is not running"):
        store.finish(a_record(5, None, measured(40.0)))
    assert store.records()[0].score == pytest.approx(40.0)


def test_a_trial_without_a_result_does_not_end(path: Path) -> None:
    store = StudyStore.open(path)
    with pytest.raises(StudyError, match="trial 0 has no result to record"):
        store.finish(launch(store, None, None))
    assert store.records()[0].result is None


# --- going on


def test_a_trial_that_another_process_left_running_is_found_and_ended(path: Path) -> None:
    program = f"""
        import os
        from pathlib import Path
        from tuner.core.candidate import Candidate
        from tuner.core.launch import LaunchSpec
        from tuner.search.dimensions import Categorical
        from tuner.study import StudyStore
        store = StudyStore.open(Path({str(path)!r}))
        spec = LaunchSpec(Candidate.of({{"split-mode": "layer"}}))
        place = [(Categorical("split-mode", ("layer", "tensor")), "layer")]
        store.begin(spec, place, argv=["x"], environment={{}})
        os._exit(9)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == 9
    store = StudyStore.for_run(path, IDENTITY, FACTS)
    (left,) = store.records()
    assert left.candidate == Candidate.of({"split-mode": "layer"})
    assert (left.result, left.outcome, left.wall_s) == (None, None, 0.0)
    store.finish(a_record(left.number, left.candidate, ended(Kind.STOPPED)))
    (found,) = StudyStore.open(path).records()
    assert found.outcome is not None
    assert found.outcome.kind is Kind.STOPPED


def test_a_result_whose_end_was_not_recorded_is_no_result(path: Path) -> None:
    store = StudyStore.open(path)
    launch(store, None, None)
    with sqlite3.connect(path) as database:  # as if the tuner had died between the result and the state
        database.execute(
            "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (1, 'result', '{}')"
        )
    database.close()
    assert StudyStore.open(path).records()[0].result is None


def test_a_resumed_study_proposes_what_an_uninterrupted_one_would_have(path: Path) -> None:
    store = StudyStore.open(path)
    many(store, 12)
    before = proposals(store)
    assert proposals(StudyStore.open(path)) == before
    assert proposals(resume(path)) == before


def test_a_zombie_changes_no_proposal(path: Path) -> None:
    store = StudyStore.open(path)
    many(store, 9)
    before = proposals(store)
    launch(store, some_candidate(50), None)
    assert proposals(StudyStore.open(path)) == before


def test_proposals_are_not_part_of_the_record(path: Path) -> None:
    store = StudyStore.open(path)
    proposals(store, 20)
    assert store.records() == []


@pytest.mark.parametrize("count", [0, 10])
def test_proposals_depend_on_the_seed_and_on_what_was_tried(path: Path, count: int) -> None:
    store = StudyStore.open(path)
    many(store, count)
    assert proposals(store, seed=1) == proposals(store, seed=1) != proposals(store, seed=2)
    before = proposals(store)
    many(store, 1, first=count)
    assert proposals(store) != before


def test_the_sampler_moves_towards_what_is_fast_and_away_from_what_cannot_be(path: Path) -> None:
    store = StudyStore.open(path)
    for number in range(16):
        fast = some_candidate(number).get("split-mode") == "tensor"
        result = measured(80.0) if fast else ended(Kind.OUT_OF_MEMORY)
        launch(store, some_candidate(number), result)
    modes = [one.get("split-mode") for one in proposals(store, 10)]
    assert modes.count("tensor") > modes.count("layer")


# --- what is no study of this one


def test_differences_are_named(path: Path) -> None:
    other = StudyIdentity({"model": Part("m1", "a.gguf"), "engine": Part("e2", "build 11500")})
    with pytest.raises(
        StudyError, match=r"engine: made with build 11434, now build 11500.*Start a new study with --study"
    ):
        StudyStore.for_run(path, other, FACTS)
    assert StudyStore.for_run(path, IDENTITY, FACTS).identity == IDENTITY


def test_facts_of_a_resumed_study_stay(path: Path) -> None:
    assert StudyStore.for_run(path, IDENTITY, {"other": 1}).facts == FACTS


def test_a_study_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=rf"^{tmp_path}: no study there"):
        StudyStore.open(tmp_path / "study.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"not a database at all", b"{}"])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(content)
    for read in (StudyStore.open, resume):
        with pytest.raises(StudyError, match="is no SQLite database; move it away to start anew"):
            read(path)
    assert path.read_bytes() == content


def test_a_cut_database(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(StudyError, match="cannot be read as a study"):
        StudyStore.open(path)
    with pytest.raises(StudyError, match="cannot be made or read"):
        StudyStore.for_run(path, IDENTITY, FACTS)


def test_an_empty_file_is_no_study_to_show(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.touch()
    with pytest.raises(StudyError, match="cannot be read as a study"):
        StudyStore.open(path)


def test_a_study_of_another_format_is_not_read(path: Path) -> None:
    StudyStore.open(path)._study.set_user_attr("format", STUDY_FORMAT + 1)
    for read in (StudyStore.open, resume):
        with pytest.raises(
            StudyError, match=rf"format {STUDY_FORMAT + 1}, this version .* reads {STUDY_FORMAT}"
        ):
            read(path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be made or read"):
        StudyStore.for_run(tmp_path / "missing" / "study.db", IDENTITY, FACTS)
