"""What is read from a study: `tuner show` and `tuner export`."""

from __future__ import annotations

import csv
import io
import json
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.tuner_command import Made, TunerCommand, kinds
from tuner.report.best import check_best

if TYPE_CHECKING:
    from pathlib import Path


# --- reading a study


def read(command: TunerCommand, *words: str) -> str:
    ended = command.run(*words, "--results", str(command.results))
    assert (ended.code, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def test_show_lists_every_trial_and_the_command(made: Made) -> None:
    said = read(made.command, "show", "mine")
    for part in ("Trials", "Result", "measured", "out-of-memory at kv", "the engine's own choice"):
        assert part in said
    assert made.command.best()["winner"]["command"] in said
    assert read(made.command, "show", str(made.command.study)) == said


def test_show_csv_has_a_row_for_each_trial(made: Made) -> None:
    rows = list(csv.DictReader(io.StringIO(read(made.command, "show", "mine", "--csv"))))
    records = made.command.records()
    assert [int(row["trial"]) for row in rows] == [record.number for record in records]
    assert [row["outcome"] for row in rows] == kinds(records)
    for row, record in zip(rows, records, strict=True):
        assert (row["generation_tok_s"] == "") == (record.score is None)
        assert row["generation_tok_s"] == "" or float(row["generation_tok_s"]) == pytest.approx(record.score)
        assert row["split-mode"] == ("" if record.candidate is None else record.candidate.get("split-mode"))


def test_export_is_best_json(made: Made, tmp_path: Path) -> None:
    document = json.loads(read(made.command, "export", "mine", "--format", "json"))
    check_best(document)
    assert document | {"date": ""} == made.command.best() | {"date": ""}
    path = tmp_path / "exported.json"
    assert read(made.command, "export", "mine", "-o", str(path)) == ""
    assert json.loads(path.read_text(encoding="utf-8")) | {"date": ""} == document | {"date": ""}


def test_exported_command_starts_a_server(made: Made, tmp_path: Path) -> None:
    winner = made.command.best()["winner"]
    assert shlex.split(winner["command"])[-len(winner["argv"]) :] == winner["argv"]
    with FakeEngine(tmp_path).serving(*winner["argv"][3:]) as server:
        assert server.get("/health").status_code == 200


def test_study_without_a_measurement_has_nothing_to_export(command: TunerCommand) -> None:
    command.fake.always(oom={"stage": "weights", "device": 0})
    command.run(*command.words("--launches", "1"))
    ended = command.run("export", str(command.study))
    assert ended.code == 2
    assert "nothing was measured yet" in ended.stderr
