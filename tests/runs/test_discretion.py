"""What of a launch with the user's own prompts is fit to be written down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.played_server import workload
from tests.support.trials import a_sample
from tuner.core.launch import LaunchResult
from tuner.core.outcome import Kind, Outcome
from tuner.core.workload import Origin, PromptForm, Workload
from tuner.runs.discretion import Discretion
from tuner.runs.trial_folder import TrialFolder

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = workload("one", "two")
OWN = replace(SHIPPED, prompt_set=replace(SHIPPED.prompt_set, origin=Origin(PromptForm.JSONL)))
QUOTING = "HTTP 500: cannot read 'Write about two, and do not stop.'"
RESULT = LaunchResult(Outcome(Kind.NOT_AS_ASKED, evidence=QUOTING), (a_sample(text="Dear neighbour"),))
LOG = "0.01.000.000 E unparsed x output: Dear\nneighbour\n0.02.000.000 I bye\n"


def test_answers_and_quotes_are_taken_out_of_a_result() -> None:
    quiet = Discretion(OWN, keep_text=False).result(RESULT)
    assert [sample.text for sample in quiet.samples] == [""]
    assert quiet.outcome.evidence == "HTTP 500: cannot read '[left out]'"
    assert replace(quiet, outcome=RESULT.outcome, samples=RESULT.samples) == RESULT


def test_quotes_are_taken_out_of_a_log(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.log_path.write_text(LOG, encoding="utf-8")
    Discretion(OWN, keep_text=False).log(folder)
    assert folder.log_path.read_text(encoding="utf-8") == (
        "0.01.000.000 E unparsed x output: [left out]\n0.02.000.000 I bye\n"
    )


def test_a_log_that_quotes_nothing_is_not_touched(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    Discretion(OWN, keep_text=False).log(folder)
    assert not folder.log_path.exists()
    folder.log_path.write_bytes(b"\xff loading\n")
    Discretion(OWN, keep_text=False).log(folder)
    assert folder.log_path.read_bytes() == b"\xff loading\n"


@pytest.mark.parametrize(("asked", "keep_text"), [(SHIPPED, False), (SHIPPED, True), (OWN, True)])
def test_what_is_no_secret_or_wanted_stays(tmp_path: Path, asked: Workload, *, keep_text: bool) -> None:
    discretion = Discretion(asked, keep_text=keep_text)
    assert discretion.result(RESULT) is RESULT
    folder = TrialFolder(tmp_path)
    folder.log_path.write_text(LOG, encoding="utf-8")
    discretion.log(folder)
    assert folder.log_path.read_text(encoding="utf-8") == LOG
