"""Every trial as a row, with all that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.measurement import rates_by_class
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose, TrialRecord
from tuner.report.best import shell_command
from tuner.report.proof import label, soaked_sentence
from tuner.report.words import number
from tuner.search.confirmation.result import winner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.view.inputs import ReportInputs


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial."""

    number: int
    purpose: str
    configuration: str
    outcome: str
    """The kind: `measured`, `running` or one of the table of outcomes."""
    sentence: str
    tok_s: float | None
    prompt_tok_s: float | None
    ttft_s: float | None
    acceptance: float | None
    wall_s: float
    is_best: bool
    """Whether it is a launch of the best configuration."""


@dataclass(frozen=True, slots=True)
class TrialDetail:
    """What is shown of a trial on demand."""

    command: str
    evidence: str
    """The line that decided, or the observation; empty where all was well."""
    lines: tuple[str, ...]
    """What it did, a line each."""
    log_tail: str
    """The end of what its server printed; empty where it is not kept."""


def trial_rows(inputs: ReportInputs) -> list[TrialRow]:
    """All trials in order."""
    best = winner_of(inputs.confirmation, inputs.records)
    rows = []
    for record in inputs.records:
        rates = record.rates
        rows.append(
            TrialRow(
                number=record.number,
                purpose=record.errand.purpose.value,
                configuration=label(record),
                outcome=outcome_name(record),
                sentence=_sentence(record),
                tok_s=None if rates is None else rates.generation_tok_s,
                prompt_tok_s=None if rates is None else rates.prompt_tok_s,
                ttft_s=None if rates is None else rates.ttft_s,
                acceptance=None if rates is None else rates.acceptance,
                wall_s=record.wall_s,
                is_best=record.key == best,
            )
        )
    return rows


def trial_detail(record: TrialRecord, log_tails: Mapping[int, str]) -> TrialDetail:
    """What is shown of one trial on demand."""
    return TrialDetail(
        command=shell_command(record.argv, record.environment),
        evidence="" if record.outcome is None else record.outcome.evidence,
        lines=tuple(_lines(record)),
        log_tail=log_tails.get(record.number, ""),
    )


def outcome_name(record: TrialRecord) -> str:
    """How it ended, in one word that rows can be filtered by."""
    outcome = record.outcome
    if outcome is None:
        return "running"
    if outcome.kind is not Kind.NONE:
        return outcome.kind.value
    return "measured" if record.errand.purpose in {Purpose.SEARCH, Purpose.CONFIRM} else "survived"


def _sentence(record: TrialRecord) -> str:
    """How it ended, in words."""
    if record.outcome is None:
        return "running, or cut off"
    return record.outcome.sentence() if record.outcome.kind is not Kind.NONE else outcome_name(record)


def _lines(record: TrialRecord) -> list[str]:
    result = record.result
    if result is None:
        return []
    lines = [
        f"load {result.load_s:.1f} s, requests {result.requests_s:.1f} s, shutdown {result.shutdown_s:.1f} s"
        + ("" if result.exit_code is None else f", exit code {result.exit_code}")
    ]
    if result.soak is not None:
        lines.append(soaked_sentence(result.soak))
    elif record.rates is not None:
        lines += [
            f"{name}: {number(rates.generation_tok_s, '.1f', ' tok/s')}, "
            f"prompt {number(rates.prompt_tok_s, '.0f', ' tok/s')}, first token after "
            f"{number(rates.ttft_s, '.2f', ' s')}, {rates.n_samples} requests"
            for name, rates in rates_by_class(result.samples).items()
        ]
    if result.buffers_mib:
        buffers = ", ".join(f"{name} {mib:,.0f}" for name, mib in result.buffers_mib.items())
        lines.append(f"the engine's buffers, MiB: {buffers}")
    if result.free_mib:
        lines.append(
            "left free, MiB: " + ", ".join(f"{name} {mib:,}" for name, mib in result.free_mib.items())
        )
    if result.quality is not None and result.quality.loss is not None:
        loss = result.quality.loss
        lines.append(
            f"answers {loss.judged_nats:.2g} nats off the plain reference's, {loss.positions} places"
        )
    return lines
