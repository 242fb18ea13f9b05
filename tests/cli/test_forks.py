"""A fork is driven by what its help lists: options, values and split modes that llama.cpp does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.core.test_unknown_log_lines import FORKS
from tests.support.fake_builds import Q8_BYTES, build, model
from tests.support.tuner_command import assert_refused
from tuner.core.outcome import Kind
from tuner.study import StudyStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tuner_command import TunerCommand
    from tuner.core.trial import TrialRecord

SPACE = """
schema_version = 1
[parameters.split-mode]
kind = "choice"
choices = ["layer", "tensor", "graph"]
[parameters.tensor-split]
kind = "split"
tensor_steps = 6
[parameters.cache-type-k]
kind = "choice"
choices = ["f16", "q6_0"]
[parameters."--graph-reduce-type"]
kind = "choice"
choices = ["f16", "q8_0", "q3_x"]
when = { split-mode = ["graph"] }
[parameters."--run-time-repack"]
kind = "choice"
choices = [false, true]
[[start]]
about = "by graph"
split-mode = "graph"
tensor-split = [2, 1]
"--graph-reduce-type" = "q8_0"
"--run-time-repack" = true
"""


def fork(folder: Path) -> Path:
    """It is fastest by graph, and says much that nobody knows."""
    talk = {"log": list(FORKS)}
    rules = [({"split-mode": "graph"}, {"tok_s": 90.0, **talk}), ({}, {"tok_s": 40.0, **talk})]
    return build(folder, "fork", rules, help_of="fork")


def words(command: TunerCommand, *servers: Path, launches: int, min_kv: str = "q4_0") -> list[str]:
    space = command.folder / "fork.toml"
    space.write_text(SPACE, encoding="utf-8")
    path = model(command.folder, "M-Q8_0", Q8_BYTES)
    given = command.words("--launches", str(launches), "--min-kv", min_kv, model=path, space=str(space))
    at = given.index("--server")
    return [*given[:at], *(word for one in servers for word in ("--server", str(one))), *given[at + 2 :]]


def records(path: Path) -> list[TrialRecord]:
    return StudyStore.open(path / "study.db").records()


def test_a_fork_is_tuned_by_what_its_help_lists_and_its_lines_fail_nothing(command: TunerCommand) -> None:
    ended = command.run(*words(command, fork(command.folder), launches=6))
    assert ended.code == 0, ended
    assert "split-mode tensor: dropped, this llama-server's help does not list it" in ended.stdout
    assert "--graph-reduce-type q3_x: dropped, this llama-server's help does not list it" in ended.stdout
    found = records(command.study)
    assert {record.outcome.kind for record in found if record.outcome is not None} <= {Kind.NONE, Kind.PRUNED}
    default, first, *_ = found
    assert "--fit" not in default.argv
    assert default.score == pytest.approx(40.0, rel=0.01)
    assert first.score == pytest.approx(90.0, rel=0.01)
    argv = " ".join(first.argv)
    assert "--split-mode graph --tensor-split 2,1" in argv
    assert argv.endswith("--graph-reduce-type q8_0 --run-time-repack")
    assert not {"--fit", "--no-kv-unified", "--load-mode"} & set(first.argv)
    best = command.best()["winner"]["parameters"]
    assert (best["split-mode"], best["--graph-reduce-type"]) == ("graph", best["--graph-reduce-type"])
    assert "--run-time-repack on" in ended.stdout  # told apart from one without it


def test_in_one_study_with_llama_cpp_each_has_what_it_knows(command: TunerCommand) -> None:
    llama_cpp = build(command.folder, "llama.cpp", [({}, {"tok_s": 50.0})])
    ended = command.run(*words(command, llama_cpp, fork(command.folder), launches=10))
    assert ended.code == 0, ended
    assert (
        "llama.cpp-M-Q8_0: --run-time-repack: not searched, this llama-server has no such flag"
        in ended.stdout
    )
    assert "fork-M-Q8_0: split-mode tensor: dropped" in ended.stdout
    of_fork, of_llama_cpp = (records(command.study / f"{name}-M-Q8_0") for name in ("fork", "llama.cpp"))
    modes = [
        {record.candidate.get("split-mode") for record in rows if record.candidate is not None}
        for rows in (of_fork, of_llama_cpp)
    ]
    assert "tensor" not in modes[0]
    assert "graph" not in modes[1]
    assert not any("--run-time-repack" in record.argv for record in of_llama_cpp)
    table = (command.study / "table.md").read_text(encoding="utf-8")
    assert "| fork | M-Q8_0 | 0.00 | `graph · 2,1 · " in table


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (('"--run-time-repack"', '"--ubatch-size"'), "--ubatch-size: write ubatch-size: dashes are for options"),
        (('"--run-time-repack"', "run-time-repack"), "unknown option 'run-time-repack'"),
        (("[false, true]", "[[1, 2]]"), "must be a text, a number, true or false"),
        (('kind = "choice"\nchoices = [false, true]', 'kind = "int"\nlow = 1\nhigh = 3'), "use kind choice"),
    ],
)  # fmt: skip
def test_an_option_of_a_fork_that_is_written_wrong_is_named(
    command: TunerCommand, changed: tuple[str, str], message: str
) -> None:
    given = words(command, fork(command.folder), launches=2)
    space = command.folder / "fork.toml"
    text = SPACE.partition("[[start]]")[0].replace(*changed)
    assert text != SPACE.partition("[[start]]")[0]
    space.write_text(text, encoding="utf-8")
    assert_refused(command.run(*given), message)
    assert command.launches() == []


def test_a_build_that_cannot_list_its_devices_is_refused(command: TunerCommand) -> None:
    path = fork(command.folder)
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace('"$@"', '"$@" | sed /--list-devices/d').replace("exec ", ""), encoding="utf-8"
    )
    assert_refused(command.run(*words(command, path, launches=2)), "has no --list-devices")
