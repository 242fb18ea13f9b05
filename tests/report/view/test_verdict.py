"""The verdict says what won, by how much and how sure that is; and what there is to say where nothing won."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.report.test_best import FACTS
from tests.support.known_proofs import NAMES, OWN, REF, SOAKED, A, B, played, searched, state, tried
from tests.support.trials import a_launch, ended, measured
from tuner.core.outcome import Kind, Outcome, Stage
from tuner.core.trial import Errand, Purpose
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.state import Confirmation


def inputs(records: Sequence[TrialRecord], confirmation: Confirmation | None = None) -> ReportInputs:
    return ReportInputs(tuple(records), FACTS, confirmation)


def test_a_confirmed_winner_is_told_with_its_interval() -> None:
    confirmation, records = state(played(), ended=True)
    said = verdict(inputs(records, confirmation))
    assert said.configuration in NAMES
    assert said.sentence.startswith(f"{said.configuration} makes 40.")
    assert " tok/s, 2.0" in said.sentence
    assert " times the engine's own choice (95 %: " in said.sentence
    assert said.command == "llama-server"
    assert said.state == f"{len(records)} launches; no run is going on."
    assert any(line.startswith("Against the runner-up") for line in said.behind)
    assert not any("command" in line for line in said.behind if line.startswith("The "))


def test_the_users_own_command_is_compared_with_first() -> None:
    one = played(references=(REF, OWN), rates={A: 40.0, B: 40.0, REF: 20.0, OWN: 30.0})
    confirmation, records = state(one, ended=True)
    own = a_launch(99, OWN, measured(30.0), Errand())
    assert "times your command" in verdict(inputs([*records, own], confirmation)).sentence


def test_no_significant_difference_is_said_to_be_none() -> None:
    one = played(arms=(A,), rates={A: 40.0, REF: 40.0}, noise=0.05)
    confirmation, records = state(one, ended=True)
    sentence = verdict(inputs(records, confirmation)).sentence
    assert "which is no significant difference from the engine's own choice: " in sentence
    assert "(95 %: 0." in sentence


def test_what_was_measured_once_is_said_to_be_so() -> None:
    sentence = verdict(inputs(searched())).sentence
    assert sentence == (
        f"So far the best: {NAMES[0]} makes 40.0 tok/s, 2.00 times the engine's own choice in one launch of each. "
        "It is not confirmed."
    )


def test_a_reference_that_wins_is_said_to_be_what_nothing_beats() -> None:
    records = [a_launch(0, REF, measured(50.0), Errand()), a_launch(1, A, measured(40.0), Errand())]
    said = verdict(inputs(records))
    assert said.sentence == "Nothing was found that is faster: the engine's own choice makes 50.0 tok/s."


def test_a_reference_that_does_not_run_is_named() -> None:
    died = replace(
        ended(Kind.OUT_OF_MEMORY), outcome=Outcome(Kind.OUT_OF_MEMORY, stage=Stage.KV, device="CUDA0")
    )
    confirmation, records = state(played(arms=(A,), references=()), ended=True)
    records = [a_launch(0, REF, died, Errand()), *records[1:]]
    sentence = verdict(inputs(records, confirmation)).sentence
    assert sentence.endswith("; the engine's own choice does not run here (out-of-memory at kv on CUDA0).")


def test_before_the_first_measurement_there_is_none() -> None:
    running = replace(inputs([a_launch(0, A, None, Errand())]), running=True)
    said = verdict(running)
    assert (said.sentence, said.command) == ("Nothing was measured yet.", None)
    assert said.state == "The run is going on: 1 launch so far."


def test_where_nothing_survived_there_is_no_command() -> None:
    gone = tried(9, A, Purpose.SOAK, SOAKED, Kind.CRASHED)
    said = verdict(inputs([*searched(arms=(A,)), gone]))
    assert (said.sentence, said.command) == ("Nothing that was measured survived its soak.", None)


def test_a_confirmation_that_was_cut_off_is_said_to_go_on() -> None:
    confirmation, records = state(played(launches=4))
    assert "the same command goes on with it" in verdict(inputs(records, confirmation)).state
