"""Every trial as a row, and what is shown of it on demand."""

from __future__ import annotations

import shlex
from dataclasses import replace

from tests.support.played_night import played_night
from tests.support.trials import a_record, ended
from tuner.core.outcome import Kind
from tuner.report.view.trial_rows import trial_detail, trial_rows


def test_every_trial_is_a_row_and_those_of_the_best_are_marked() -> None:
    night = played_night()
    rows = trial_rows(night)
    assert [row.number for row in rows] == [record.number for record in night.records]
    best = [row for row in rows if row.is_best]
    assert {row.configuration for row in best} == {"tensor · 4,5 · ub 512 · kv q8_0 · draft-mtp n-max 3"}
    assert [row.purpose for row in best] == ["search", *["confirm"] * 4, "soak", "endure"]
    for row, record in zip(rows, night.records, strict=True):
        assert (row.tok_s is None) == (record.score is None)


def test_outcomes_are_words_that_rows_can_be_filtered_by() -> None:
    rows = trial_rows(played_night())
    assert {row.outcome for row in rows} == {"measured", "out-of-memory", "survived"}
    assert rows[2].sentence.startswith("out-of-memory at kv on CUDA0")
    assert [row.sentence for row in rows[-2:]] == ["survived", "survived"]
    night = replace(played_night(), records=(a_record(0, None, None, reference="current"),))
    assert [(row.outcome, row.sentence) for row in trial_rows(night)] == [("running", "running, or cut off")]


def test_a_detail_has_the_command_and_what_decided_and_the_log() -> None:
    night = played_night()
    detail = trial_detail(night.records[4], night.log_tails)
    assert shlex.split(detail.command) == list(night.records[4].argv)
    assert detail.log_tail.endswith("trial 4 ends here")
    assert any(line.startswith("code: ") for line in detail.lines)
    assert any(line.startswith("left free, MiB: CUDA0 ") for line in detail.lines)
    assert trial_detail(a_record(0, None, ended(Kind.CRASHED)), {}).evidence == "a line about crashed"
    soaked = trial_detail(night.records[-2], {})
    assert any("prompts of up to 60,211 tokens of 65,536" in line for line in soaked.lines)
