"""`tuner tune --storage` and `tuner worker` on the fake engine and a real database, a folder a machine."""

from __future__ import annotations

import contextlib
import re
import signal
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.fake_builds import build
from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import Tensor, model_metadata, write_gguf, write_sparse_gguf
from tests.support.shared_study import close
from tests.support.tuner_command import DEADLINE_S, TunerCommand, assert_refused, kinds, lives
from tuner.core.outcome import Kind
from tuner.runs.trial_folder import TrialFolder
from tuner.study import Making, SharedStore, Worker
from tuner.study.location import Location

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.support.fake_engine import DeviceRow
    from tests.support.postgres import Postgres
    from tests.support.tuner_command import Ended

PAIR = [
    ("CUDA0", "NVIDIA GeForce RTX 5080", 16303, 15900),
    ("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 24100),
]
#: The first card is the same.
OTHER_PAIR = [PAIR[0], ("CUDA1", "NVIDIA GeForce RTX 4090", 24564, 24100)]
#: 8 GiB that are not there: a file with a hole.
LARGE = [
    Tensor("token_embd.weight"),
    *(Tensor(f"blk.{layer}.ffn_down.weight", (4096, 262_144), 0, 2**32) for layer in range(2)),
]


@dataclass
class Machine:
    """One of several machines: a folder, locks and an engine of its own."""

    command: TunerCommand
    url: str
    study: str

    @property
    def folder(self) -> Path:
        """Of the study on this machine."""
        return self.command.results / self.study

    def tune(self, *options: str, space: str = "quick") -> Ended:
        return self.command.run(
            *self.command.words("--study", self.study, "--storage", self.url, *options, space=space)
        )

    def words(self, *options: str) -> list[str]:
        """Of `tuner worker` behind the program."""
        return [
            *("worker", self.study, "--storage", self.url, "--results", str(self.command.results), "--yes"),
            *options,
        ]

    def work(self, *options: str) -> Ended:
        return self.command.run(*self.words(*options))

    def working(self, *options: str) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        """A worker that goes on, killed at the end if it still does."""
        return self.command.going_on(self.words(*options))

    @contextlib.contextmanager
    def store(self, study: str | None = None) -> Iterator[SharedStore]:
        """The study as another worker sees it."""
        name = study or self.study
        store = SharedStore.open(Location(self.url), name, worker=Worker("test", "test"))
        yield store
        close(store._storage)

    def more(self, launches: int) -> None:
        """As its first machine does with `--launches`."""
        with self.store() as store:
            store.note_run({**store.run_options(), "launches": launches})

    def note_rates(self, rates: Mapping[str, Any]) -> None:
        """As who proves the winner does."""
        with self.store() as store:
            store.note_rates(rates)
            store._write_notes(force=True)

    def delete(self) -> None:
        with self.store() as store:
            store._storage.delete_study(store._study_id)

    def in_storage(self) -> list[tuple[Any, ...]]:
        """All that is there of any study."""
        with psycopg.connect(self.url.replace("+psycopg", "")) as connection:
            return [
                row
                for table in ("studies", "study_user_attributes", "trials", "trial_user_attributes")
                for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608 - ours
            ]


def machine(folder: Path, url: str, study: str, devices: Sequence[DeviceRow] = PAIR) -> Machine:
    folder.mkdir()
    fake = FakeEngine(folder, devices=devices).always(draft_acceptance=0)
    return Machine(TunerCommand(folder, fake), url, study)


@pytest.fixture
def first(tmp_path: Path, postgres: Postgres) -> Machine:
    return machine(tmp_path / "first", postgres.url, f"s{uuid.uuid4().hex[:12]}")


@pytest.fixture
def second(tmp_path: Path, first: Machine) -> Machine:
    """Another machine with like devices."""
    return machine(tmp_path / "second", first.url, first.study)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Machine:
    """The first machine of a study that exists; nobody changes it."""
    found = machine(tmp_path_factory.mktemp("made") / "first", postgres.url, f"s{uuid.uuid4().hex[:12]}")
    assert found.tune("--launches", "1").code == 0
    return found


@pytest.fixture
def joining(tmp_path: Path, made: Machine) -> Machine:
    """Another machine that would join that."""
    return machine(tmp_path / "joining", made.url, made.study)


# --- working together


def test_a_worker_goes_on_with_what_another_machine_has_begun(first: Machine, second: Machine) -> None:
    ended = first.tune("--launches", "3")
    assert ended.code == 0, ended
    assert f"Others join it with: tuner worker {first.study} --storage {Location(first.url)}" in ended.stdout
    first.more(5)
    ended = second.work()
    assert ended.code == 0, ended
    with second.store() as store:
        records = store.every_record()
    hosts = {record.worker for record in records}
    assert (len(records), len(hosts)) == (6, 2)
    keys = [record.key for record in records if record.candidate is not None]
    assert len(keys) == len(set(keys)) == 4
    assert (second.folder / "best.json").is_file()
    assert (second.folder / "worker.json").is_file()
    again = second.work()
    assert "The run ends: the study is complete: all 5 launches are made." in again.stdout
    assert len(second.command.launches()) == 3


def test_kill_9_in_a_trial_is_settled_by_the_same_worker_at_once(first: Machine, second: Machine) -> None:
    """Its lease is two minutes; nobody has to wait for it. And meanwhile the rig is its own."""
    assert first.tune("--launches", "1").code == 0
    first.more(3)
    second.command.fake.when({"split-mode": "none"}, hang="first-token")
    second.command.fake.when({"split-mode": "layer"}, hang="first-token")
    second.command.fake.when({"split-mode": "tensor"}, hang="first-token")
    with second.working() as process:
        second.command.wait_until(lambda: len(second.command.fake.events("request")) >= 3)
        taken = second.work("--results", str(second.command.folder / "elsewhere"))
        assert_refused(taken, "Device ", "is in use by another tuner")
        taken = second.work()
        assert_refused(taken, f"Study {second.folder.resolve()} is in use by another tuner")
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
    with second.store() as store:
        before = store.every_record()
    assert kinds(before) == [Kind.NONE, Kind.NONE, None]
    orphan = second.command.launches()[-1]
    second.command.fake = FakeEngine(second.command.folder, devices=PAIR).always(draft_acceptance=0)
    ended = second.work()
    assert ended.code == 0, ended
    assert not lives(orphan)
    assert f"trial {before[-1].number} was cut off when the tuner was killed" in ended.stdout
    with second.store() as store:
        after = store.every_record()
    assert kinds(after) == [Kind.NONE, Kind.NONE, Kind.STOPPED, Kind.NONE, Kind.NONE]
    assert [record.worker for record in after[1:]] == [before[-1].worker] * 4
    assert after[3].key == before[-1].key


# --- who may join


def test_another_model_is_refused_with_the_difference(joining: Machine) -> None:
    other = write_gguf(
        joining.command.folder / "other.gguf", model_metadata(), [Tensor("a.weight", (128,), 0, 512)]
    )
    ended = joining.work("--model", str(other))
    assert_refused(ended, "this machine cannot join it: ", "model: made with Small Model", "here ", "--model")
    assert "now" not in ended.stderr
    assert not joining.folder.exists()


def test_another_engine_is_refused_with_the_difference(joining: Machine) -> None:
    ended = joining.work("--server", str(build(joining.command.folder, "other")))
    assert_refused(ended, "this machine cannot join it: ", "engine: made with version: ", "--server")


def test_another_workload_is_refused_with_the_difference(first: Machine, second: Machine) -> None:
    """A file of prompts that says something else on this machine, though its name is the same."""
    prompts = first.command.folder / "prompts"
    prompts.mkdir()
    (prompts / "one.txt").write_text("Say one thing.", encoding="utf-8")
    assert first.tune("--launches", "1", "--prompts", str(prompts)).code == 0
    (prompts / "one.txt").write_text("Say another thing.", encoding="utf-8")
    ended = second.work()
    assert_refused(ended, "this machine cannot join it: ", "workload: made with ")


def test_other_flags_are_refused_and_other_addresses_are_not(joining: Machine) -> None:
    ended = joining.work("--", "--threads", "3")
    assert_refused(ended, "flags: made with none, here --threads 3", "-- FLAGS")


def test_a_study_that_is_made_with_something_else_is_not_gone_on_with(made: Machine) -> None:
    ended = made.tune("--launches", "1", "--tokens", "9")
    assert_refused(ended, "was made with something else: workload: ", "--study NAME")


def test_a_study_that_is_not_there_is_said_to_be_missing(joining: Machine) -> None:
    joining.study = "none"
    assert_refused(joining.work(), "no study 'none' there; studies: ")


def test_a_study_that_is_not_wholly_made_is_joined_later(made: Machine, first: Machine) -> None:
    """Its machine may have died just then, or this one may have been too quick."""
    with made.store() as store:
        facts, identity = store.facts, store.identity
    found = SharedStore.for_run(Location(first.url), first.study, Making(identity, facts, 120.0))
    close(found._storage)
    assert_refused(first.work(), "is not wholly made yet", "run its tuner tune --storage")


# --- another class of rigs


def test_another_class_of_rigs_is_refused_where_the_study_is_of_one(tmp_path: Path, made: Machine) -> None:
    other = machine(tmp_path / "other", made.url, made.study, OTHER_PAIR)
    ended = other.work()
    assert_refused(
        ended, "devices: made with CUDA0 NVIDIA GeForce RTX 5080 of 16303 MiB", "RTX 4090 of 24564 MiB"
    )
    assert_refused(ended, "rigs of another class can join a study that was made with --per-rig-class")


def test_another_class_of_rigs_gets_a_study_beside_with_what_is_known_of_devices_that_both_have(
    tmp_path: Path, first: Machine
) -> None:
    """The first card's memory runs out there, which says how much of it is not to be had; the second is another."""
    first.command.model = write_sparse_gguf(tmp_path / "large.gguf", model_metadata(), LARGE)
    first.command.fake.when({"split-mode": "tensor"}, oom={"stage": "kv", "device": 0, "mib": 512})
    assert first.tune("--launches", "6", "--per-rig-class", space="dual-gpu").code == 0
    other = machine(tmp_path / "other", first.url, first.study, OTHER_PAIR)
    shown = [other.work("--dry-run").stdout]
    first.note_rates({"CUDA0": [1e10, 0.01], "CUDA1": [1e10, 0.01]})
    shown.append(other.work("--dry-run").stdout)
    assert not other.command.results.exists()
    said = [
        re.findall(r"From there come (\d+) facts of memory and the speed of (\d) devices", one)
        for one in shown
    ]
    assert said[0] == [(said[0][0][0], "0")]
    assert said[1] == [(said[0][0][0], "1")]
    assert int(said[0][0][0]) >= 3

    ended = other.work()
    assert ended.code == 0, ended
    found = re.search(rf"{first.study}@\w{{8}}", ended.stdout)
    assert found is not None
    with other.store(found[0]) as store:
        records = store.every_record()
        assert store.parent == first.study
    assert (len(records), len({record.worker for record in records})) == (6, 1)
    # the memory of the card that both have: no line names most of it, and nothing was launched that needs it
    folder = other.command.results / found[0].replace("@", "+")
    plans = [TrialFolder.of(folder, record.number).predicted_mib() for record in records]
    unnamed = {name: {plan[name]["runtime"] for plan in plans if name in plan} for name in ("CUDA0", "CUDA1")}
    assert min(unnamed["CUDA0"], default=0.0) > 2_000, unnamed
    assert max(unnamed["CUDA1"]) < 2_000, unnamed
    # its speed: so slow that the other one is better without it
    proposed = [re.findall(r"# would be proposed first: .*\n.* --device (\S+)", one) for one in shown]
    assert proposed == [["CUDA0,CUDA1"], ["CUDA1"]]
    assert records[1].candidate is not None
    assert records[1].candidate.get("device") == ("CUDA1",)
    with first.store() as store:
        assert len(store.every_record()) == 6  # the other class's are not among them


# --- folders


def test_a_folder_of_a_study_of_this_machine_alone_is_left_alone(joining: Machine) -> None:
    words = joining.command.words("--study", joining.study, "--launches", "1")
    assert joining.command.run(*words).code == 0
    assert_refused(joining.work(), "holds a study of this machine alone", "--results DIR")


def test_a_folder_of_another_study_of_that_name_is_left_alone(first: Machine) -> None:
    assert first.tune("--launches", "1").code == 0
    first.delete()
    assert_refused(first.tune("--launches", "1"), "holds trials of another study of that name", "--results")


# --- what one command may not be


@pytest.mark.parametrize("options", [("--context", "2048,4096"), ("--server", "a", "--server", "b")])
def test_a_shared_study_is_of_one_engine_and_one_context(first: Machine, options: tuple[str, ...]) -> None:
    assert_refused(first.tune(*options), "--storage: ", "one model, one engine and one context")


def test_a_shared_study_is_of_one_model(first: Machine) -> None:
    words = first.command.words("--study", first.study, "--storage", first.url, "--launches", "1")
    words.insert(2, str(first.command.model))
    assert_refused(first.command.run(*words), "--storage: ", "one model, one engine and one context")


def test_a_rig_class_without_a_storage_is_refused(command: TunerCommand) -> None:
    assert_refused(command.run(*command.words("--per-rig-class")), "--per-rig-class: ", "--storage")


def test_a_dry_run_writes_nothing_anywhere(joining: Machine, first: Machine) -> None:
    before = joining.in_storage()
    for ended in (joining.work("--dry-run"), first.tune("--launches", "3", "--dry-run")):
        assert ended.code == 0, ended
        assert "Would be launched first, in this order" in ended.stdout
    assert joining.in_storage() == before
    for one in (joining, first):
        assert not one.command.results.exists()
        assert one.command.launches() == []
