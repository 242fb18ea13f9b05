"""What is read from a study: `tuner show`."""

from __future__ import annotations

import csv
import io

import pytest

from tests.support.tuner_command import Made, kinds, read


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
