"""`tuner retune` on fake builds: what has changed, whether the claim holds, and what becomes of the old best."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tuner_command import Ended, TunerCommand, assert_refused
from tests.support.two_builds import FakeBuild
from tuner.report.best import check_best

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SPACE = """
schema_version = 1
about = "Two cards, by layer or by tensor."

[fixed]
gpu-layers = 999
load-mode = "none"

[parameters.split-mode]
kind = "choice"
choices = ["layer", "tensor"]

[parameters.tensor-split]
kind = "split"
tensor_steps = 4

[parameters.cache-type-k]
kind = "choice"
choices = ["f16", "q8_0"]

[parameters.cache-type-v]
kind = "choice"
choices = ["f16", "q8_0"]

[[rules]]
left = "cache-type-k"
op = "=="
right = "cache-type-v"
"""
TENSOR = {"split-mode": "tensor"}
TENSOR_Q8 = {"split-mode": "tensor", "cache-type-k": "q8_0"}


def usual(build: FakeBuild, *, tensor_tok_s: float = 80.0) -> FakeBuild:
    """50 tok/s, and more by tensor."""
    build.always(tok_s=50, prompt_tok_s=4000, draft_acceptance=0)
    return build.when(TENSOR, tok_s=tensor_tok_s)


@dataclass
class Study:
    """A study on an old build, which tests read and do not change."""

    command: TunerCommand
    old: FakeBuild

    @property
    def path(self) -> Path:
        return self.command.study / "best.json"

    @property
    def best(self) -> dict[str, Any]:
        return self.command.best()


def made(
    folder: Path,
    build: str = "11434",
    *,
    refuses: Mapping[str, object] | None = None,
    default_tok_s: float | None = None,
) -> Study:
    """A study of that build; what it refuses ends as unsupported."""
    old = FakeBuild(folder / "old", build=build)
    if default_tok_s is not None:
        old.when({"fit": "on"}, tok_s=default_tok_s)
    if refuses is not None:
        old.when(
            refuses,
            exit=1,
            log="error: simultaneous use of SPLIT_MODE_TENSOR and KV cache quantization not implemented",
        )
    usual(old)
    space = folder / "two.toml"
    space.write_text(SPACE, encoding="utf-8")
    command = TunerCommand(folder, old)
    command.tune(
        *("--launches", "8", "--confirm", "3", "--requests", "2", "--quality", "0.3s"), space=str(space)
    )
    return Study(command, old)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return made(tmp_path_factory.mktemp("retune"))


class Retune:
    """`tuner retune` with results and facts of the test's own."""

    def __init__(self, study: Study, folder: Path) -> None:
        self.study = study
        self.results = folder / "results"
        self.facts = folder / "facts"
        self.best = study.path
        self._before = study.path.read_bytes()

    def run(self, *words: str) -> Ended:
        where = ("--results", str(self.results), "--facts", str(self.facts))
        ended = self.study.command.run("retune", str(self.best), *where, "--yes", *words)
        assert self.study.path.read_bytes() == self._before  # whatever comes of it
        return ended

    def onto(self, build: FakeBuild, *words: str, launches: int = 12) -> Ended:
        return self.run("--server", str(build.path), "--launches", str(launches), *words)

    @property
    def folder(self) -> Path:
        """The study of the one retune that was made."""
        (path,) = self.results.glob("mine-*/study.db")
        return path.parent

    def found(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "retuned.json").read_text(encoding="utf-8"))
        return document

    def new_best(self) -> dict[str, Any] | None:
        path = self.folder / "best.json"
        if not path.exists():
            return None
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        check_best(document)
        return document


@pytest.fixture
def retune(study: Study, tmp_path: Path) -> Retune:
    return Retune(study, tmp_path)


@pytest.fixture
def new(tmp_path: Path) -> FakeBuild:
    """The next build: another binary that does the same."""
    build = FakeBuild(tmp_path / "new")
    build.stamp("the next build")
    return build


def launches(build: FakeBuild) -> int:
    return sum("-m" in event["argv"] for event in build.events("start"))


# --- check


def test_an_unchanged_rig_is_fresh_and_nothing_is_launched(retune: Retune) -> None:
    before = launches(retune.study.old)
    ended = retune.run("--check")
    assert (ended.code, ended.stderr) == (0, "")
    assert "Fresh: nothing that the result depends on has changed." in ended.stdout
    assert "1.600 times the engine's own choice" in ended.stdout
    assert launches(retune.study.old) == before
    assert not retune.results.exists()


def test_another_build_is_doubtful_and_nothing_is_launched(retune: Retune, new: FakeBuild) -> None:
    ended = retune.run("--check", "--server", str(usual(new).path))
    assert ended.code == 1
    assert "engine     changed" in ended.stdout
    assert "Doubtful: only launches tell" in ended.stdout
    assert launches(new) == 0


def test_the_check_is_there_as_json(retune: Retune, new: FakeBuild) -> None:
    ended = retune.run("--check", "--json", "--server", str(usual(new).path))
    document = json.loads(ended.stdout)
    assert document["state"] == "doubtful"
    changed = {row["part"]: row["doubt"] for row in document["changes"] if row["state"] != "fresh"}
    assert set(changed) == {"engine"}
    assert "speeds" in changed["engine"]


def test_a_model_of_another_shape_is_stale(retune: Retune, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    shutil.copy(retune.study.command.model, other)
    document = retune.study.best
    document["model"] |= {"fingerprint": "another", "shape": "another"}
    retune.best = tmp_path / "best.json"
    retune.best.write_text(json.dumps(document), encoding="utf-8")
    ended = retune.run("--check", "--model", str(other))
    assert ended.code == 2
    assert "of another shape" in ended.stdout
    assert "Stale: " in ended.stdout
    assert_refused(Ended(2, "", retune.run().stderr), "model", "tuner tune")


# --- measure


def test_its_own_winner_keeps_its_claim(retune: Retune) -> None:
    ended = retune.run("--check", "--measure")
    assert ended.code == 0
    assert "The claim holds: measured 1.600x" in ended.stdout
    assert "3 launches a side" in ended.stdout
    again = retune.run("--check", "--measure")  # what the first has left is replaced
    assert again.code == 0


@pytest.mark.parametrize("raised", [1.5, 1.2])
def test_a_claim_that_was_raised_does_not_hold(retune: Retune, tmp_path: Path, raised: float) -> None:
    document = retune.study.best
    for row in document["references"]:
        row["winner_ratio"] *= raised
    for row in document["confirmation"]["references"]:
        row["ratio"] *= raised
        row["interval"] = [bound * raised for bound in row["interval"]]
    retune.best = tmp_path / "best.json"
    retune.best.write_text(json.dumps(document), encoding="utf-8")
    ended = retune.run("--check", "--measure")
    assert ended.code == 1
    assert "The claim does not hold: measured 1.600x" in ended.stdout


def test_a_winner_that_does_not_run_any_more_is_stale(retune: Retune, new: FakeBuild) -> None:
    new.when(TENSOR, exit=1, log="error: LLAMA_SPLIT_MODE_TENSOR not implemented for architecture 'llama'")
    ended = retune.run("--measure", "--server", str(usual(new).path))
    assert ended.code == 2
    assert "Stale: the winner does not do here what it did: unsupported" in ended.stdout


# --- the run


def test_an_unchanged_build_takes_three_launches_a_side_and_rewrites_nothing(
    retune: Retune, new: FakeBuild
) -> None:
    before = launches(retune.study.old)
    ended = retune.onto(usual(new))
    assert ended.code == 0, ended
    assert "Unchanged: tensor" in ended.stdout
    assert "Nothing was rewritten: " in ended.stdout
    assert launches(retune.study.old) - before == 3
    found = retune.found()
    assert (found["verdict"], found["launches"] <= 12) == ("unchanged", True)
    (own,) = [row for row in found["configurations"] if row["role"] == "best"]
    assert len(own["now_tok_s"]) == 3
    assert retune.new_best() is None
    checked = retune.run("--check", "--server", str(new.path))
    assert checked.code == 0  # it was measured in just this state
    assert "measured   as it was  unchanged, as a retune found on" in checked.stdout


def test_the_same_retune_is_not_made_twice_unless_it_is_wanted(retune: Retune, new: FakeBuild) -> None:
    retune.onto(usual(new))
    made = launches(new)
    again = retune.onto(new)
    assert again.code == 0
    assert "This was found out on " in again.stdout
    assert "Unchanged: tensor" in again.stdout
    assert launches(new) == made
    assert retune.onto(new, "--again").code == 0
    assert launches(new) > made
    assert len(list(retune.results.glob("mine-*"))) == 2


def test_a_build_that_is_slower_in_tensor_mode_is_reported_with_its_cause(
    retune: Retune, new: FakeBuild
) -> None:
    ended = retune.onto(usual(new, tensor_tok_s=56.0))
    assert "Slower: tensor" in ended.stdout
    assert "0.700x" in ended.stdout
    assert "What is behind it: split-mode tensor." in ended.stdout
    found = retune.found()
    assert (found["verdict"], found["suspected"]) == ("slower", ["split-mode tensor"])
    assert found["launches"] <= 12
    report = (retune.folder / "regression.md").read_text(encoding="utf-8")
    assert report.startswith("### llama-server: 30% slower generation with split-mode tensor")
    assert str(retune.results.parent) not in report
    best = retune.new_best()
    assert best is not None  # by tensor it is still the best of this build
    previous = next(row for row in best["confirmation"]["references"] if row["name"] == "previous")
    assert previous["ratio"] == pytest.approx(0.7, rel=0.01)
    assert "0.700 times what was best before, as it was" in ended.stdout


def test_a_build_that_lost_a_flag_gets_the_command_in_its_own_words(tmp_path: Path) -> None:
    before = made(tmp_path / "before", build="9246")
    assert "--no-mmap" in before.best["winner"]["argv"]
    retune = Retune(before, tmp_path)
    new = usual(FakeBuild(tmp_path / "new"))
    checked = retune.run("--check", "--server", str(new.path))
    assert checked.code == 1
    assert "--no-mmap -> --load-mode none" in checked.stdout
    ended = retune.onto(new)
    assert ended.code == 0, ended
    assert retune.found()["launches"] <= 12
    best = retune.new_best()
    assert best is not None
    words = best["winner"]["argv"]
    assert "--no-mmap" not in words
    assert words[words.index("--load-mode") + 1] == "none"
    assert best["study"]["retune"]["of"] == "mine"
    starts = [event["argv"] for event in new.events("start") if "-m" in event["argv"]]
    assert any("--load-mode" in argv for argv in starts)


def test_what_has_become_possible_is_found_and_used(tmp_path: Path) -> None:
    """The old build refused tensor mode with a q8_0 cache, which is the fastest on the new one."""
    before = made(tmp_path / "before", refuses=TENSOR_Q8)
    assert before.best["winner"]["parameters"]["cache-type-k"] == "f16"
    retune = Retune(before, tmp_path)
    new = FakeBuild(tmp_path / "new")
    new.when(TENSOR_Q8, tok_s=100)
    ended = retune.onto(usual(new))
    assert ended.code == 0, ended
    assert "ended as unsupported before" in ended.stdout
    best = retune.new_best()
    assert best is not None
    parameters = best["winner"]["parameters"]
    assert (parameters["split-mode"], parameters["cache-type-k"]) == ("tensor", "q8_0")
    assert best["soak"]["outcome"] == "none"
    assert retune.found()["launches"] <= 12


def test_other_answers_are_told(retune: Retune, new: FakeBuild) -> None:
    new.always(tok_s=50, prompt_tok_s=4000, draft_acceptance=0, kl=0.08).when(TENSOR, tok_s=80)
    ended = retune.onto(new)
    assert "Output changed: tensor" in ended.stdout
    assert "nats off at" in ended.stdout
    assert retune.found()["verdict"] == "output changed"


def test_a_build_on_which_the_best_does_not_start_is_broken_and_says_why(
    retune: Retune, new: FakeBuild
) -> None:
    new.when(TENSOR, exit=1, log="error: LLAMA_SPLIT_MODE_TENSOR not implemented for architecture 'llama'")
    ended = retune.onto(usual(new))
    found = retune.found()
    assert found["verdict"] == "broken"
    assert "unsupported" in found["why"]
    assert "tuner diagnose " in ended.stdout
    best = retune.new_best()
    assert best is None or best["winner"]["parameters"]["split-mode"] == "layer"
    assert (ended.code == 0) == (best is not None)


def test_where_nothing_beat_the_engines_own_choice_that_is_the_canary(tmp_path: Path) -> None:
    before = made(tmp_path / "before", default_tok_s=120.0)
    assert before.best["winner"]["reference"] == "engine-default"
    retune = Retune(before, tmp_path)
    new = FakeBuild(tmp_path / "new").when({"fit": "on"}, tok_s=90)
    ended = retune.onto(usual(new))
    assert "Slower: the engine's own choice; now over then: 0.750x" in ended.stdout
    assert retune.found()["launches"] <= 12
    best = retune.new_best()
    assert best is not None
    assert best["winner"]["reference"] == "engine-default"


def test_another_file_of_the_same_shape_goes_the_same_way(retune: Retune, tmp_path: Path) -> None:
    """Its answers may be other ones; what was best with the old file is not there to be launched."""
    document = retune.study.best
    document["model"] |= {"fingerprint": "another", "weights_type": "Q8_0"}
    retune.best = tmp_path / "best.json"
    retune.best.write_text(json.dumps(document), encoding="utf-8")
    checked = retune.run("--check")
    assert checked.code == 1
    assert "another file of the same shape" in checked.stdout
    ended = retune.run("--launches", "12")
    assert ended.code == 0, ended
    assert "is not the file of then" in ended.stdout
    assert retune.found()["verdict"] == "unchanged"
    assert retune.new_best() is not None  # the old file names another model


def test_an_engine_that_was_replaced_in_its_place_is_compared_with_the_records(tmp_path: Path) -> None:
    before = made(tmp_path / "before")
    retune = Retune(before, tmp_path)
    before.old.stamp("replaced")
    ended = retune.run("--launches", "12")
    assert ended.code == 0, ended
    assert "Then: cannot be launched beside it: the engine of then is not at" in ended.stdout
    assert "its records stand for it" in ended.stdout
    assert retune.found()["verdict"] == "unchanged"


def test_history_lists_what_was_best_with_which_build(retune: Retune, new: FakeBuild) -> None:
    retune.onto(usual(new))
    said = retune.study.command.run("show", "--history", "--facts", str(retune.facts)).stdout
    assert "CUDA0: NVIDIA GeForce RTX 5080" in said
    assert "unchanged: tensor" in " ".join(said.split())
    study = retune.study.command
    own = study.run("show", "mine", "--history", "--results", str(study.results))  # as tune has kept it
    assert own.code == 0
    assert "mine" in own.stdout
    assert_refused(study.run("show", "--history", "--facts", str(retune.facts / "none")), "nothing is known")
    assert_refused(study.run("show"), "--history")


def test_the_report_shows_what_was_best_with_each_build(retune: Retune, new: FakeBuild) -> None:
    """Of the same model and the same work; a retune that has changed nothing tells what is made now."""
    command = retune.study.command
    shutil.copytree(
        command.folder / "data" / "split-ratio-tuner" / "rigs", retune.facts
    )  # as tune has kept it
    retune.onto(usual(new))
    page = retune.results / "report.html"
    words = ("report", "mine", "--results", str(command.results), "--facts", str(retune.facts))
    assert command.run(*words, "-o", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    assert 'id="builds"' in text
    (history,) = retune.facts.glob("history-*.json")
    entries = json.loads(history.read_text(encoding="utf-8"))["entries"]
    assert [round(one["score_tok_s"]) for one in entries] == [80, 80]
    assert [one["verdict"] for one in entries] == [None, "unchanged"]
    assert entries[1]["ratio"] == pytest.approx(1.6, rel=0.01)


# --- what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--confirm", "1"), "--confirm"),
        (("--launches", "2"), "--launches 2"),
        (("--budget", "soon"), "--budget"),
        (("--server", "/nowhere/llama-server"), "/nowhere/llama-server"),
        (("--quality", "long"), "--quality"),
        (("--study", "a/b"), "--study"),
    ],
)
def test_options_that_make_no_sense_are_refused(retune: Retune, words: tuple[str, ...], said: str) -> None:
    assert_refused(retune.run(*words), said)
    assert not list(retune.results.glob("*/study.db"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("{}", "no best.json"),
        ("\xff", "best.json"),
    ],
)
def test_a_file_that_is_no_best_json_is_refused(retune: Retune, tmp_path: Path, text: str, said: str) -> None:
    retune.best = tmp_path / "best.json"
    retune.best.write_bytes(text.encode("latin-1"))
    assert_refused(retune.run("--check"), str(retune.best), said)


def test_a_file_that_does_not_say_how_it_was_made_is_refused(retune: Retune, tmp_path: Path) -> None:
    document = retune.study.best
    del document["study"]["options"]
    retune.best = tmp_path / "best.json"
    retune.best.write_text(json.dumps(document), encoding="utf-8")
    assert_refused(retune.run("--check"), str(retune.best), "tune again")


def test_a_study_that_does_not_exist_is_refused(retune: Retune) -> None:
    assert_refused(retune.study.command.run("retune", "nothing", "--results", str(retune.results)), "nothing")
