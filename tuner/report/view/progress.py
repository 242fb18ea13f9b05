"""What a run did, hour by hour: best so far, how launches ended, what was not launched."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.memory.words import not_launched_sentences
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose, TrialRecord, disqualified
from tuner.report.proof import label
from tuner.report.view.table import Table, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.view.inputs import ReportInputs


@dataclass(frozen=True, slots=True)
class Event:
    """One launch."""

    trial: int
    ended_s: float | None
    """Seconds since 1970; None where the study does not say, or while it runs."""
    kind: Kind | None
    """None while it runs."""
    purpose: Purpose
    score_tok_s: float | None
    configuration: str
    sentence: str
    """How it ended."""
    best_tok_s: float | None
    """The best that the search had measured when it ended; None before the first."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Launches that ended alike."""

    sentence: str
    count: int
    first_trial: int
    evidence: str
    """What decided, of the first of them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The section."""

    events: tuple[Event, ...]
    failures: tuple[Failure, ...]
    """How launches ended that were not measured, the most frequent first."""
    not_launched: tuple[str, ...]
    """What was not launched and why, a sentence each."""
    counts: tuple[tuple[str, int], ...]
    """Launches by what they were made for."""
    has_clock: bool
    """Whether it is known when each launch ended."""
    alt: str


def progress(inputs: ReportInputs) -> Progress:
    """The section."""
    gone = disqualified(inputs.records)
    best: float | None = None
    events = []
    for record in inputs.records:
        if (
            record.errand.purpose is Purpose.SEARCH
            and record.may_win
            and record.score is not None
            and record.key not in gone
        ):
            best = record.score if best is None else max(best, record.score)
        outcome = record.outcome
        events.append(
            Event(
                trial=record.number,
                ended_s=inputs.clock.get(record.number, (0.0, None))[1],
                kind=None if outcome is None else outcome.kind,
                purpose=record.errand.purpose,
                score_tok_s=record.score,
                configuration=label(record),
                sentence="running, or cut off" if outcome is None else outcome.sentence(),
                best_tok_s=best,
            )
        )
    counts = Counter(record.errand.purpose.value for record in inputs.records)
    failures = failures_of(inputs.records)
    return Progress(
        events=tuple(events),
        failures=tuple(failures),
        not_launched=tuple(
            f"{sentence}." for sentence in not_launched_sentences(inputs.not_launched, inputs.device_names)
        ),
        counts=tuple((purpose.value, counts[purpose.value]) for purpose in Purpose if counts[purpose.value]),
        has_clock=bool(events) and all(one.ended_s is not None for one in events if one.kind is not None),
        alt=_alt(events, failures),
    )


def failures_of(records: Sequence[TrialRecord]) -> list[Failure]:
    """How launches ended that have no rate, the most frequent first."""
    groups: dict[str, list[TrialRecord]] = {}
    for record in records:
        outcome = record.outcome
        soaked = record.errand.purpose in {Purpose.SOAK, Purpose.ENDURE}
        if outcome is None or outcome.kind is Kind.NONE or (outcome.policy.measured and not soaked):
            continue
        # amounts differ from launch to launch
        groups.setdefault(replace(outcome, requested_mib=None).sentence(), []).append(record)
    rows = [
        Failure(
            sentence,
            len(group),
            group[0].number,
            "" if group[0].outcome is None else group[0].outcome.evidence,
        )
        for sentence, group in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, row.first_trial))


def failures_table(section: Progress) -> Table:
    """How launches ended that were not measured."""
    return table(
        "how it ended|>launches|first seen|what decided",
        [
            (one.sentence, str(one.count), f"trial {one.first_trial}", one.evidence)
            for one in section.failures
        ],
    )


def _alt(events: Sequence[Event], failures: Sequence[Failure]) -> str:
    best = next((one.best_tok_s for one in reversed(events) if one.best_tok_s is not None), None)
    lost = sum(one.count for one in failures)
    if best is None:
        return f"{len(events)} launches in order; nothing was measured, {lost} ended otherwise."
    steps = len(dict.fromkeys(one.best_tok_s for one in events if one.best_tok_s is not None))
    return (
        f"{len(events)} launches in order; the best so far rose in {steps} steps to {best:.1f} tok/s; "
        f"{lost} launches were not measured."
    )
