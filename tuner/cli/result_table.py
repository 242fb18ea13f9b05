"""The result of a study as a short table, and its trials as a long one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tuner.core.launch import reference_name
from tuner.core.memory.words import not_launched_sentences
from tuner.core.monitoring import slow_links
from tuner.core.trial import TrialRecord, best_of
from tuner.report.best import shell_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.memory.words import NotLaunched


def label(record: TrialRecord) -> str:
    """What people call what was launched."""
    if record.candidate is not None:
        return record.candidate.summary()
    return reference_name(record.reference)


def summary(records: Sequence[TrialRecord]) -> Table:
    """The winner against each reference."""
    winner = best_of(records)
    table = Table(title="Result", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("configuration", overflow="fold")
    for name in ("tok/s", "prompt", "TTFT", "accept", "winner is"):
        table.add_column(name, justify="right", no_wrap=True)
    last = {r.reference: r for r in records if r.reference is not None and r.outcome is not None}
    for record in last.values():
        outcome = record.outcome
        failed = "" if outcome is None or outcome.policy.measured else f": {outcome.sentence()}"
        table.add_row("reference", label(record) + failed, *_cells(record), _times(winner, record))
    if winner is not None:
        table.add_row("winner", label(winner), *_cells(winner), "", style="bold")
    return table


def headline(
    records: Sequence[TrialRecord], not_launched: Sequence[NotLaunched], facts: Mapping[str, Any]
) -> list[str]:
    """What there is to say about the result, in sentences.

    Args:
        records: The study's trials.
        not_launched: Candidates that cannot fit.
        facts: The study's facts, for the names of its devices.
    """
    winner = best_of(records)
    lines = []
    for record in records:
        outcome = record.outcome
        if record.reference is not None and outcome is not None and not outcome.policy.measured:
            lines.append(f"{label(record).capitalize()} does not run here: {outcome.sentence()}.")
    if winner is None:
        lines.append(
            "Nothing could be measured: see the outcomes above and the logs in the study's trials folder."
        )
    elif winner.reference is not None:
        lines.append(f"Nothing was found that is faster than {label(winner)}.")
    names = {device["name"]: f"{device['name']} ({device['description']})" for device in facts["devices"]}
    lines += [f"{sentence}." for sentence in not_launched_sentences(not_launched, names)]
    lines += [f"{sentence}." for sentence in slow_links(records)]
    if winner is not None:
        lines += ["The command, without host and port:", shell_command(winner.argv, winner.environment)]
    return lines


def trials_table(records: Sequence[TrialRecord]) -> Table:
    """Every trial of a study."""
    best = best_of(records)
    table = Table(title="Trials", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("configuration", overflow="fold")
    table.add_column("outcome", overflow="fold")
    for name in ("tok/s", "prompt", "TTFT", "accept", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        outcome = record.outcome
        said = "running, or cut off" if outcome is None else outcome.sentence()
        style = "bold" if best is not None and record.number == best.number else None
        table.add_row(
            str(record.number), label(record), said, *_cells(record), f"{record.wall_s:.1f}", style=style
        )
    return table


def _cells(record: TrialRecord) -> tuple[str, str, str, str]:
    rates = record.rates
    if rates is None:
        return "-", "-", "-", "-"
    return (
        _number(rates.generation_tok_s, ".1f"),
        _number(rates.prompt_tok_s, ".0f"),
        _number(rates.ttft_s, ".2f", " s"),
        "-" if rates.acceptance is None else f"{rates.acceptance:.0%}",
    )


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"


def _times(winner: TrialRecord | None, other: TrialRecord) -> str:
    if winner is None or winner.score is None or other.score is None:
        return "-"
    return f"{winner.score / other.score:.2f}x"
