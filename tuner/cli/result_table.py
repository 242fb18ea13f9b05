"""The result of a study as a short table, and its trials as a long one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tuner.core.objective import Objective
from tuner.core.trial import Purpose, TrialRecord
from tuner.report.best import shown
from tuner.report.headline import last_of_references, winning
from tuner.report.proof import label
from tuner.report.words import number
from tuner.search.confirmation.result import winner_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.measurement import Rates
    from tuner.search.confirmation.state import Confirmation


def summary(records: Sequence[TrialRecord], confirmation: Confirmation | None = None) -> Table:
    """The winner against each reference; where they were confirmed, over all launches that did."""
    winner = winning(records, confirmation)
    table = Table(title="Result", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("configuration", overflow="fold")
    for name in (*_goal_columns(records), "tok/s", "prompt", "TTFT", "accept", "winner is"):
        table.add_column(name, justify="right", no_wrap=True)
    for last in last_of_references(records):
        record = shown(last.key, records, confirmation)
        outcome = record.outcome
        failed = "" if outcome is None or outcome.policy.measured else f": {outcome.sentence()}"
        table.add_row("reference", label(record) + failed, *_cells(record), _times(winner, record))
    if winner is not None:
        table.add_row("winner", label(winner), *_cells(winner), "", style="bold")
    return table


def trials_table(records: Sequence[TrialRecord], confirmation: Confirmation | None = None) -> Table:
    """Every trial of a study; those of its best configuration stand out."""
    best = winner_of(confirmation, records)
    table = Table(title="Trials", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("configuration", overflow="fold")
    table.add_column("outcome", overflow="fold")
    for name in (*_goal_columns(records), "tok/s", "prompt", "TTFT", "accept", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        outcome = record.outcome
        said = "running, or cut off" if outcome is None else outcome.sentence()
        if record.errand.purpose is not Purpose.SEARCH:
            said = f"{said} ({record.errand.purpose})"
        style = "bold" if record.key == best else None
        table.add_row(
            str(record.number), label(record), said, *_cells(record), f"{record.wall_s:.1f}", style=style
        )
    return table


def _goal_columns(records: Sequence[TrialRecord]) -> tuple[str, ...]:
    """What is made the most of, where that is not how fast a request generates."""
    names = {Objective.TURN: ("a turn",), Objective.THROUGHPUT: ("in all",)}
    return names.get(records[0].goal.objective, ()) if records else ()


def _goal_cells(record: TrialRecord, rates: Rates | None) -> tuple[str, ...]:
    if record.goal.objective is Objective.TURN:
        return (number(None if rates is None else rates.turn_s, ".2f", " s"),)
    if record.goal.objective is Objective.THROUGHPUT:
        return (number(record.score, ".1f"),)
    return ()


def _cells(record: TrialRecord) -> tuple[str, ...]:
    rates = record.rates
    if rates is None:
        return *_goal_cells(record, rates), "-", "-", "-", "-"
    return (
        *_goal_cells(record, rates),
        number(rates.generation_tok_s, ".1f"),
        number(rates.prompt_tok_s, ".0f"),
        number(rates.ttft_s, ".2f", " s"),
        "-" if rates.acceptance is None else f"{rates.acceptance:.0%}",
    )


def _times(winner: TrialRecord | None, other: TrialRecord) -> str:
    if winner is None or winner.score is None or other.score is None:
        return "-"
    return f"{winner.score / other.score:.2f}x"
