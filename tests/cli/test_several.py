"""`tuner tune A.gguf B.gguf --server S1 --server S2`: one table of engine by file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_builds import Q4_BYTES, Q8_BYTES, build, model
from tests.support.tuner_command import ROOT, TunerCommand, assert_refused, lives
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose, searched
from tuner.report.best import check_best
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.tuner_command import Ended
    from tuner.core.trial import TrialRecord

Rules = list[tuple["Mapping[str, object]", "Mapping[str, object]"]]
LAUNCHES = 21
NAMES = ("old-M-Q8_0", "new-M-Q8_0", "old-M-Q4_0", "new-M-Q4_0")


class Several:
    """Two builds and two quantisations of a model; the new build is a little faster, the small file much."""

    def __init__(self, command: TunerCommand) -> None:
        self.command = command
        self.folder = command.folder
        self.q8 = model(self.folder, "M-Q8_0", Q8_BYTES)
        self.q4 = model(self.folder, "M-Q4_0", Q4_BYTES)

    def rules(self, factor: float, q8: float = 40.0, q4: float = 60.0) -> Rules:
        """What a build makes of each file; its own choice makes less, and of the small one the answers are off."""
        rows = ((self.q8, q8, 0.0), (self.q4, q4, 0.05))
        return [
            ({"model": str(path), **when}, {"tok_s": tok_s * factor * part, "kl": nats})
            for path, tok_s, nats in rows
            for when, part in (({"fit": "on"}, 0.5), ({"split-mode": "tensor"}, 0.8), ({}, 1.0))
        ]

    def old(self, rules: Rules | None = None) -> Path:
        return build(self.folder, "old", self.rules(0.97) if rules is None else rules)

    def new(self, rules: Rules | None = None) -> Path:
        return build(self.folder, "new", self.rules(1.0) if rules is None else rules)

    def words(self, *options: str, models: tuple[Path, ...] = (), servers: tuple[str, ...] = ()) -> list[str]:
        """As `TunerCommand.words`, for these models and servers."""
        first, *more = (str(path) for path in models or (self.q8, self.q4))
        words = self.command.words(*options)
        at = words.index("--server")
        servers = servers or (str(self.old()), str(self.new()))
        given = [word for server in servers for word in ("--server", server)]
        return ["tune", first, *more, *given, *words[at + 2 :]]

    def tune(self, *options: str, **given: Any) -> Ended:  # noqa: ANN401 - as `words`
        ended = self.command.run(*self.words(*options, **given))
        assert ended.code == 0, ended
        return ended

    def table(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.command.study / "table.json").read_text(encoding="utf-8"))
        return document

    def text(self) -> str:
        return (self.command.study / "table.md").read_text(encoding="utf-8")

    def row(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(row for row in self.table()["rows"] if row["name"] == name)
        return found

    def records(self, name: str) -> list[TrialRecord]:
        return StudyStore.open(self.command.study / name / "study.db").records()


@pytest.fixture
def several(command: TunerCommand) -> Several:
    return Several(command)


@dataclass(frozen=True, slots=True)
class Made:
    """A study of two engines and two files that exists, and what was said while it was made."""

    several: Several
    words: list[str]
    said: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    several = Several(TunerCommand(tmp_path_factory.mktemp("several")))
    old = several.old()
    yours = f"{old} -m {several.q4} --split-mode tensor -ts 2,1"
    options = ("--launches", str(LAUNCHES), "--confirm", "2", "--quality", "1s", "--current", yours)
    words = several.words(*options, servers=(str(old), str(several.new())))
    ended = several.command.run(*words)
    assert ended.code == 0, ended
    return Made(several, words, ended.stdout)


# --- the table


def test_each_engine_with_each_file_is_a_study_and_a_row_of_one_table(made: Made) -> None:
    study, document = made.several.command.study, made.several.table()
    assert [row["name"] for row in document["rows"]] == list(NAMES)  # the largest file first
    assert sum(len(searched(made.several.records(name))) for name in NAMES) == LAUNCHES
    for row in document["rows"]:
        best = json.loads((study / row["name"] / "best.json").read_text(encoding="utf-8"))
        assert row["score_tok_s"] == best["winner"]["score_tok_s"]
        assert row["command"] == best["winner"]["command"]
        assert set(row["classes_tok_s"]) == set(best["winner"]["classes"])
    assert document["winner"] == "new-M-Q4_0"
    assert {"new-M-Q8_0", "new-M-Q4_0"} <= set(document["worth_having"])
    assert made.several.text().startswith("| engine | file | GiB | best configuration | tok/s |")
    assert made.several.text().strip() in made.said


def test_each_winner_was_launched_with_the_largest_context_that_fits(made: Made) -> None:
    for row in made.several.table()["rows"]:
        assert (row["context_tokens"], row["expected_context_tokens"]) == (32_768, None)
        assert row["context_tok_s"] == pytest.approx(row["score_tok_s"], rel=0.05)
        records = made.several.records(row["name"])
        (stretched,) = [one for one in records if one.errand.purpose is Purpose.STRETCH]
        assert "32768" in stretched.argv


def test_answers_are_compared_with_the_largest_file_on_the_same_texts(made: Made) -> None:
    reference, same_file, small, _ = made.several.table()["rows"]
    assert reference["is_reference"]
    assert small["loss"]["kl_nats"] == pytest.approx(0.05, rel=0.2)
    assert same_file["loss"]["kl_nats"] < 0.01
    looked_at = [one.result.quality for one in made.several.records("new-M-Q4_0") if one.result is not None]
    assert any(looked_at)
    assert all(one.to_largest is not None for one in looked_at if one is not None)


def test_winners_are_launched_side_by_side_and_their_ratio_has_an_interval(made: Made) -> None:
    winner, other = made.several.row("new-M-Q4_0"), made.several.row("new-M-Q8_0")
    assert winner["ratio"] is None
    assert other["ratio"]["ratio"] == pytest.approx(40 / 60, rel=0.02)
    assert other["ratio"]["interval"][0] <= other["ratio"]["ratio"] <= other["ratio"]["interval"][1]
    compared = [one for one in made.several.records("new-M-Q8_0") if one.errand.purpose is Purpose.COMPARE]
    assert [one.errand.block for one in compared] == [0, 1]


def test_the_users_command_is_measured_where_it_belongs_and_compared_with_the_winner(made: Made) -> None:
    of_current = {
        name for name in NAMES if any(one.reference == "current" for one in made.several.records(name))
    }
    assert of_current == {"old-M-Q4_0"}
    (note,) = [note for note in made.several.table()["notes"] if "your command" in note]
    assert note.startswith("The winner makes 1.29 times as much as your command (95 %:")


def test_the_best_elsewhere_is_a_first_try(made: Made) -> None:
    first = made.several.records("old-M-Q8_0")[: 1 + 4]
    best = max(first, key=lambda one: (one.candidate is not None and one.may_win, one.worth, -one.number))
    assert made.several.records("new-M-Q8_0")[1].candidate == best.candidate


def test_the_best_json_is_the_one_of_the_winner_of_all(made: Made) -> None:
    command = made.several.command
    best = json.loads((command.study / "best.json").read_text(encoding="utf-8"))
    check_best(best)
    assert best["study"]["name"] == "new-M-Q4_0"
    assert best["winner"]["argv"][2] == str(made.several.q4)
    exported = command.run("export", "mine", "--results", str(command.results))
    assert json.loads(exported.stdout)["winner"] == best["winner"]


def test_a_retune_finds_the_study_of_the_winner_and_the_history_knows_all(made: Made) -> None:
    command = made.several.command
    checked = command.run("retune", str(command.study / "best.json"), "--check")
    assert checked.code == 0, checked
    history = command.run("show", "mine", "--history", "--results", str(command.results))
    for tok_s in {f"{row['score_tok_s']:.1f}" for row in made.several.table()["rows"]}:
        assert tok_s in history.stdout


def test_show_prints_the_table_and_each_study_of_it(made: Made) -> None:
    command = made.several.command
    shown = command.run("show", "mine", "--results", str(command.results))
    assert shown.stdout == made.several.text()
    one = command.run("show", "mine/old-M-Q8_0", "--results", str(command.results))
    assert "Trials" in one.stdout


def test_the_same_command_again_launches_nothing(made: Made) -> None:
    command = made.several.command
    launches, before = len(command.launches()), made.several.table()
    assert command.run(*made.words).code == 0
    assert len(command.launches()) == launches
    assert {**made.several.table(), "date": before["date"]} == before


def test_a_killed_run_goes_on_where_it_was_and_measures_nothing_twice(several: Several) -> None:
    """In the middle of the second study's turn; its server is ended first."""
    command = several.command
    words = several.words("--launches", "12", models=(several.q8,))
    second = command.study / "new-M-Q8_0" / "trials" / "2" / "process.json"
    with (several.folder / "tuner.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tuner", *words],
            cwd=ROOT,
            env=command.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        command.wait_until(lambda: second.exists() or process.poll() is not None)
    finally:
        process.kill()
        process.wait(60)
    before = {name: len(several.records(name)) for name in ("old-M-Q8_0", "new-M-Q8_0")}
    ended = command.run(*words)
    assert ended.code == 0, ended
    assert not any(lives(event) for event in command.launches())
    for name, count in before.items():
        records = several.records(name)
        assert len(records) >= count
        counted = [
            one.key for one in searched(records) if one.outcome and one.outcome.kind is not Kind.STOPPED
        ]
        assert len(set(counted)) == len(counted)
    made = [one for name in before for one in searched(several.records(name))]
    stopped = sum(one.outcome is not None and one.outcome.kind is Kind.STOPPED for one in made)
    assert (len(made) - stopped, stopped <= 1) == (12, True)


# --- who is out, and who cannot be compared


def test_a_file_that_is_slower_and_worse_than_another_is_dropped_early(several: Several) -> None:
    options = ("--launches", "14", "--confirm", "2", "--quality", "1s")
    said = several.tune(*options, servers=(str(several.new(several.rules(1.0, q4=20.0))),)).stdout
    kept, dropped = several.row("llama-server-M-Q8_0"), several.row("llama-server-M-Q4_0")
    assert dropped["out"]["by"] == "llama-server-M-Q8_0"
    assert dropped["out"]["why"].startswith("20.0 tok/s against 40.0, no more context, answers 0.0")
    assert (kept["out"], dropped["launches"]) == (None, 5)
    assert len(searched(several.records("llama-server-M-Q8_0"))) == 9
    assert "Out after 4 launches: llama-server-M-Q4_0, llama-server-M-Q8_0 is better: 20.0 tok/s" in said
    assert {one.errand.purpose for one in several.records("llama-server-M-Q4_0")} == {Purpose.SEARCH}


def test_an_engine_that_does_not_know_the_file_is_out_and_the_other_goes_on(several: Several) -> None:
    lost = {"exit": 1, "log": ["llama_model_load: error loading model: unknown model architecture: 'new'"]}
    old = several.old([({"model": str(several.q4)}, lost), *several.rules(0.97)])
    several.tune("--launches", "8", servers=(str(old), str(several.new())))
    row = several.row("old-M-Q4_0")
    assert row["score_tok_s"] is None
    assert "unknown model architecture" in row["out"]["why"]
    assert several.table()["winner"] == "new-M-Q4_0"
    assert "| old | M-Q4_0 | 0.00 | nothing runs |" in several.text()


def test_files_with_other_tokens_are_not_compared(several: Several) -> None:
    other = model(several.folder, "Other", Q4_BYTES - 1000, tokens=("x", "y"))
    rules: Rules = [({"model": str(other)}, {"tok_s": 20.0}), *several.rules(1.0)]
    options = ("--launches", "10", "--quality", "1s")
    several.tune(*options, models=(several.q8, other), servers=(str(several.new(rules)),))
    row = several.row("llama-server-Other")
    assert row["loss"] is None
    assert row["out"] is None  # it is slower, but nobody knows how good it is
    assert several.table()["notes"] == [
        "Other has other tokens than M-Q8_0: their answers cannot be compared."
    ]
    assert "not compared" in several.text()


# --- flags, and what is said


def test_flags_of_one_engine_are_no_flags_of_the_other(several: Several) -> None:
    servers = (f"{several.old()} --threads 3", str(several.new()))
    several.tune("--launches", "2", models=(several.q8,), servers=servers)
    assert all("--threads" in record.argv for record in several.records("old-M-Q8_0"))
    assert not any("--threads" in record.argv for record in several.records("new-M-Q8_0"))
    assert [engine["flags"] for engine in several.table()["engines"]] == [["--threads", "3"], []]


def test_a_single_engine_can_have_flags_too(several: Several) -> None:
    several.tune("--launches", "1", models=(several.q8,), servers=(f"{several.new()} --threads 3",))
    assert all("--threads" in record.argv for record in several.command.records())


def test_what_is_decided_before_the_search_is_said_once_and_of_whom(several: Several) -> None:
    old = build(several.folder, "old", several.rules(1.0), help_of="9246")
    said = several.tune("--dry-run", servers=(str(old), str(several.new()))).stdout
    assert "With old:" in said
    assert "one table of 2 x 2 engines and files" in said
    assert said.count("spec-type draft-mtp: dropped, the model has no MTP layers") == 1
    assert not several.command.results.exists()
    assert several.command.launches() == []


# --- what is wrong with the question


def _same_build(several: Several) -> list[str]:
    one = several.new()
    twin = several.folder / "builds" / "twin" / "bin" / "llama-server"
    twin.parent.mkdir(parents=True)
    twin.write_bytes(one.read_bytes())
    twin.chmod(0o755)
    return several.words(servers=(str(one), str(twin)))


BAD: dict[str, tuple[Callable[[Several], list[str]], str]] = {
    "file twice": (lambda one: one.words(models=(one.q8, one.q8)), "are the same model; give each once"),
    "engine twice": (
        lambda one: one.words(servers=(str(one.new()), str(one.new()))),
        "the same llama-server is there twice",
    ),
    "the same build": (_same_build, "are the same build ["),
    "no such file": (lambda one: one.words(models=(one.q8, one.folder / "none.gguf")), "none.gguf"),
    "no such engine": (lambda one: one.words(servers=(str(one.new()), "/none/s")), "/none/s: no such file"),
    "a word that is no model": (lambda one: one.words(models=(one.q8, one.folder / "stray")), "stray"),
    "a ladder": (lambda one: one.words("--context", "1k,2k"), "a ladder of contexts is of one engine"),
    "no word": (lambda one: one.words(servers=(str(one.new()), " ")), "--server: is empty"),
    "a quote": (lambda one: one.words(servers=(str(one.new()), "a 'b")), "--server: No closing quotation"),
    "a flag of the tuner's": (
        lambda one: one.words(servers=(f"{one.new()} --port 1", str(one.old()))),
        "--port after -- is set by the tuner",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_nothing_is_launched_or_written(several: Several, name: str) -> None:
    make, message = BAD[name]
    assert_refused(several.command.run(*make(several)), message)
    assert several.command.launches() == []
    assert not several.command.results.exists()


@pytest.mark.parametrize("file", ["study.db", "ladder.json"])
def test_a_folder_with_something_else_is_left_alone(several: Several, file: str) -> None:
    several.command.study.mkdir(parents=True)
    (several.command.study / file).write_bytes(b"")
    assert_refused(several.command.run(*several.words()), str(several.command.study), "--study NAME")
    assert [path.name for path in several.command.study.iterdir()] == [file]


def test_another_build_at_the_same_path_is_not_gone_on_with(several: Several) -> None:
    words = several.words("--launches", "2", models=(several.q8,))
    assert several.command.run(*words).code == 0
    launches, path = len(several.command.launches()), several.new()
    path.write_text(path.read_text(encoding="utf-8") + "# rebuilt\n", encoding="utf-8")
    assert_refused(several.command.run(*words), "new-M-Q8_0 was made with something else: engine")
    assert len(several.command.launches()) == launches
