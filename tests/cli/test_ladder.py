"""`tuner tune --context 1k,2k,max`: a study a context, and what more context costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tuner_command import assert_refused
from tuner.cli import laddering, tuning
from tuner.cli.build import assembly
from tuner.study import StudyStore

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from tests.support.tuner_command import TunerCommand


def ladder(command: TunerCommand, context: str, *options: str) -> dict[str, Any]:
    command.tune("--context", context, "--launches", "3", *options)
    document: dict[str, Any] = json.loads((command.study / "ladder.json").read_text(encoding="utf-8"))
    return document


def test_each_context_is_a_study_of_its_own_and_the_table_says_what_is_lost(command: TunerCommand) -> None:
    said = command.tune("--context", "2k,1k,max", "--launches", "3").stdout
    document = json.loads((command.study / "ladder.json").read_text(encoding="utf-8"))
    assert [rung["context"] for rung in document["rungs"]] == [1024, 2048, 4096]
    assert [rung["is_max"] for rung in document["rungs"]] == [False, False, True]
    assert document["tried_as_max"] == [4096]  # what the model was trained for: it is small
    for rung in document["rungs"]:
        records = StudyStore.open(command.study / str(rung["context"]) / "study.db").records()
        assert rung["launches"] == len(records) == 3
        assert f"--ctx-size {rung['context']}" in rung["command"]
        best = json.loads((command.study / str(rung["context"]) / "best.json").read_text(encoding="utf-8"))
        assert rung["score_tok_s"] == best["winner"]["score_tok_s"]
    table = (command.study / "ladder.md").read_text(encoding="utf-8")
    assert table.startswith("| context | best configuration | tok/s | of the first |")
    assert "| 4,096 (max) | `" in table
    assert table.strip() in said
    assert "| 100% |" in table.splitlines()[2]


def test_a_rung_begins_with_the_winner_of_the_one_below(command: TunerCommand) -> None:
    ladder(command, "1k,2k")
    first, second = (
        StudyStore.open(command.study / name / "study.db").records() for name in ("1024", "2048")
    )
    winner = json.loads((command.study / "1024" / "best.json").read_text(encoding="utf-8"))["winner"]
    assert first[1].candidate is not None
    assert second[1].candidate is not None
    if winner["reference"] is None:
        assert second[1].candidate.to_json() == {**winner["parameters"], "ctx-size": 2048}


def test_a_ladder_that_was_cut_off_goes_on_and_measures_nothing_twice(command: TunerCommand) -> None:
    before = ladder(command, "1k,2k,max")
    launches = len(command.launches())
    after = ladder(command, "1k,2k,max")
    assert len(command.launches()) == launches
    assert after["rungs"] == before["rungs"]


def test_what_a_killed_climb_left_is_ended_before_the_devices_are_asked(
    command: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder(command, "1k,2k")
    order: list[str] = []
    take, assemble = tuning.take_study, assembly.assemble

    def taking(folder: Path, stack: ExitStack) -> None:
        order.append(folder.name)
        take(folder, stack)

    def assembling(*given: Any, **named: Any) -> assembly.Assembly:  # noqa: ANN401 - what it is given
        order.append("devices")
        return assemble(*given, **named)

    monkeypatch.setattr(laddering, "take_study", taking)
    monkeypatch.setattr(laddering, "assemble", assembling)
    ladder(command, "1k,2k")
    assert order[:3] == ["1024", "2048", "devices"]


def test_where_nothing_runs_the_ladder_ends_and_says_so(command: TunerCommand) -> None:
    command.fake.when({"ctx-size": "2048"}, oom={"stage": "kv", "device": 0, "mib": 512})
    said = command.tune("--context", "1k,2k,4k", "--launches", "3").stdout
    document = json.loads((command.study / "ladder.json").read_text(encoding="utf-8"))
    assert [rung["context"] for rung in document["rungs"]] == [1024, 2048]
    assert document["rungs"][1]["score_tok_s"] is None
    assert document["rungs"][1]["out_of_memory"] > 0
    assert "2,048 tokens: nothing runs here, so nothing above is tried" in said
    assert "| 2,048 | nothing runs |" in said


def test_show_of_a_ladder_is_its_table(command: TunerCommand) -> None:
    ladder(command, "1k,2k")
    shown = command.run("show", "mine", "--results", str(command.results))
    assert shown.code == 0
    assert shown.stdout.strip() == (command.study / "ladder.md").read_text(encoding="utf-8").strip()
    rung = command.run("show", "mine/2048", "--results", str(command.results))
    assert rung.code == 0
    assert "Trials" in rung.stdout


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("1k,1024", "--context 1k,1024: a context is there twice"),
        ("max,max", "--context max,max: a context is there twice"),
        ("1k,deep", "--context: 'deep' is no number of tokens"),
        ("1k,64k", "--context: 65,536 tokens are more than the model was trained for (4,096)"),
        (
            "64k",
            "65,536 tokens of context are more than the model was trained for (4,096), and llama-server gives",
        ),
    ],
)
def test_contexts_that_make_no_sense_are_one_line(command: TunerCommand, context: str, message: str) -> None:
    ended = command.run(*command.words("--context", context))
    assert_refused(ended, message)
    assert command.launches() == []
