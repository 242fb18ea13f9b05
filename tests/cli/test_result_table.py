"""What a reader of the result sees: what stands behind the winner, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tests.report.test_best import FACTS
from tests.support.known_proofs import (
    NAMES,
    OWN,
    REF,
    SOAKED,
    A,
    B,
    looked_at,
    played,
    searched,
    state,
    tried,
    with_quality,
)
from tests.support.trials import a_launch, ended, measured
from tuner.cli.result_table import summary, trials_table
from tuner.core.outcome import Kind
from tuner.core.trial import Errand, Purpose
from tuner.report.headline import headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tests.support.trials import PlayedConfirmation
    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.state import Confirmation

UNCONFIRMED = "Not confirmed: the winner was measured in the search alone, and may owe it to luck."
COMMAND = "The command, without host and port:"


def said(records: Sequence[TrialRecord], confirmation: Confirmation | None = None) -> list[str]:
    """All that is said before the command."""
    lines = headline(records, [], FACTS, confirmation)
    return lines[: lines.index(COMMAND)] if COMMAND in lines else lines


def told(one: PlayedConfirmation) -> list[str]:
    """What is said once it has ended."""
    confirmation, records = state(one, ended=True)
    return said(records, confirmation)


def shown(table: Table) -> str:
    console = Console(width=160, no_color=True)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


# --- confirmed or not


def test_a_winner_of_the_search_alone_is_said_not_to_be_confirmed() -> None:
    assert said(searched()) == [UNCONFIRMED]


def test_a_confirmed_winner_is_said_to_be_faster_by_how_much_and_than_whom() -> None:
    confirmation, records = state(played(), ended=True)
    against, runner_up = said(records, confirmation)
    assert against.startswith("Against the engine's own choice: 2.0")
    assert "(95 %: " in against
    assert against.endswith("(4 launches a side).")
    assert "no significant difference" in runner_up
    assert runner_up.endswith("; the winner made more in these launches.")


def test_a_confirmation_that_goes_on_is_said_to_go_on() -> None:
    confirmation, records = state(played(launches=4))
    assert said(records, confirmation) == [
        UNCONFIRMED,
        "The confirmation is not finished; the same command goes on with it.",
    ]
    confirmation, records = state(played(blocks=8, launches=14, noise=0.02))
    assert UNCONFIRMED not in said(records, confirmation)
    assert said(records, confirmation)[-1].startswith("The confirmation is not finished")


def test_a_confirmation_without_a_result_says_who_failed() -> None:
    one = played(instead={(arm, 0): ended(Kind.OUT_OF_MEMORY) for arm in (A, B)})
    confirmation, records = state(one, ended=True)
    assert said(records, confirmation) == [
        "Nothing was found that is faster than the engine's own choice.",
        UNCONFIRMED,
        *(f"Not confirmed: {name}: out-of-memory: a line about out-of-memory." for name in NAMES),
    ]


def test_drift_outliers_and_what_was_made_again_are_said() -> None:
    one = played(blocks=8, instead={(A, 1): measured(30.0), (REF, 2): ended(Kind.RPC_LOST)}, noise=0.02)
    text = "\n".join(told(one))
    assert "Launches that stand out: trial " in text
    assert "Launches that were made again: trial " in text
    text = "\n".join(told(played(loss=0.01)))
    assert "The rig drifted: from the first launch to the last by -1" in text


# --- disqualified


def test_who_did_not_survive_is_said_and_why() -> None:
    gone = tried(30, A, Purpose.SOAK, SOAKED, Kind.DEGRADED)
    confirmation, records = state(played(), gone, ended=True)
    assert f"Disqualified: {NAMES[0]}: degraded." in said(records, confirmation)


def test_a_reference_that_wins_since_nothing_else_survived_is_not_said_to_be_the_fastest() -> None:
    gone = [tried(30 + n, arm, Purpose.SOAK, SOAKED, Kind.CRASHED) for n, arm in enumerate((A, B))]
    found = said([*searched(), *gone])
    assert found[0] == "Nothing was found that survives and is faster than the engine's own choice."
    assert found[2:] == [f"Disqualified: {name}: crashed." for name in NAMES]


def test_where_nothing_survived_it_is_not_said_that_nothing_was_measured() -> None:
    gone = tried(30, A, Purpose.SOAK, SOAKED, Kind.CRASHED)
    assert said([*searched(arms=(A,)), gone]) == [
        "Nothing that was measured survived its soak.",
        f"Disqualified: {NAMES[0]}: crashed.",
    ]
    assert said([a_launch(0, A, ended(Kind.CRASHED), Errand())])[0].startswith("Nothing could be measured")


# --- references


@pytest.mark.parametrize("kind", [Kind.STOPPED, Kind.DISTURBED, Kind.RPC_LOST])
def test_a_reference_that_was_measured_in_the_end_runs_here(kind: Kind) -> None:
    records = [
        a_launch(0, OWN, ended(kind), Errand()),
        a_launch(1, OWN, measured(20.0), Errand()),
        a_launch(2, A, measured(40.0), Errand()),
    ]
    assert said(records) == [UNCONFIRMED]
    assert "2.00x" in shown(summary(records))


def test_a_reference_that_does_not_run_is_named_once() -> None:
    records = [
        a_launch(0, OWN, ended(Kind.CRASHED), Errand()),
        a_launch(1, OWN, ended(Kind.CRASHED), Errand()),
        a_launch(2, A, measured(40.0), Errand()),
    ]
    assert said(records)[0] == "Your command does not run here: crashed."
    assert len(said(records)) == 2
    stopped = [a_launch(0, OWN, ended(Kind.STOPPED), Errand()), a_launch(1, A, measured(40.0), Errand())]
    assert said(stopped) == [UNCONFIRMED]


# --- soak, endurance, answers


def test_what_the_winner_survived_is_said() -> None:
    rows = [tried(30, A, Purpose.SOAK), tried(31, A, Purpose.ENDURE, replace(SOAKED, seconds=4000.0))]
    soak, endurance = said([*searched(arms=(A,)), *rows])[1:]
    assert soak.startswith("Soak: 12 requests in 90 s, prompts of up to 15,000 tokens of 16,384")
    assert soak.endswith("nothing here reports the devices' memory.")
    assert endurance == "Endurance: 12 requests, 67 min, 0 failures."


def test_a_soak_that_was_cut_off_is_not_said_to_be_survived() -> None:
    records = searched(arms=(A,))
    cut = tried(30, A, Purpose.SOAK, SOAKED, Kind.STOPPED)
    assert said([*records, cut])[-1].startswith("Soak, which ended with stopped: 12 requests")
    nothing = tried(30, A, Purpose.SOAK, None, Kind.STOPPED)
    assert said([*records, nothing])[-1] == "Soak, which ended with stopped: nothing was answered."


def test_how_the_winners_answers_are_is_said() -> None:
    text = said([with_quality(0, A, looked_at(0.002, deep=0.004))])[-1]
    assert text == (
        "Its answers: next tokens 0.004 nats off the plain reference's (90 places, up to 2,000 tokens deep; "
        "noise 0.001, bound 0.01)."
    )


# --- tables


def test_the_table_shows_all_launches_that_confirmed() -> None:
    confirmation, records = state(played(), ended=True)
    text = shown(summary(records, confirmation))
    assert "winner" in text
    assert "2.0" in text


def test_what_a_trial_was_made_for_is_said_beside_its_outcome() -> None:
    rows = [*searched(arms=(A,)), tried(30, A, Purpose.SOAK), tried(31, A, Purpose.ENDURE)]
    text = shown(trials_table(rows))
    assert "measured (soak)" in text
    assert "measured (endure)" in text
