"""The result of a study in sentences: by how much the winner is faster, and what stands behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.core.launch import CURRENT
from tuner.core.measurement import FIRST_ONLY, rates_by_class, rates_by_depth
from tuner.core.memory.words import not_launched_sentences
from tuner.core.monitoring import slow_links
from tuner.core.objective import Objective
from tuner.core.outcome import Kind
from tuner.core.trial import TrialRecord, disqualified, searched
from tuner.report.best import shell_command, shown
from tuner.report.proof import (
    configuration,
    confirmation_sentences,
    endurance_document,
    label,
    quality_document,
    soak_document,
)
from tuner.report.words import number
from tuner.search.confirmation.result import result_of, winner_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.measurement import Rates
    from tuner.core.memory.words import NotLaunched
    from tuner.search.confirmation.state import Confirmation


def headline(
    records: Sequence[TrialRecord],
    not_launched: Sequence[NotLaunched],
    facts: Mapping[str, Any],
    confirmation: Confirmation | None = None,
) -> list[str]:
    """What there is to say about the result, in sentences.

    Args:
        records: The study's trials.
        not_launched: Candidates that cannot fit.
        facts: The study's facts, for the names of its devices.
        confirmation: Where its confirmation stands; None where it has none.
    """
    winner = winning(records, confirmation)
    lines = []
    for record in last_of_references(records):
        outcome = record.outcome
        if outcome is not None and outcome.kind is not Kind.STOPPED and not outcome.policy.measured:
            lines.append(f"{label(record).capitalize()} does not run here: {outcome.sentence()}.")
    gone = disqualified(records)
    if winner is None and gone:
        lines.append("Nothing that was measured survived its soak.")
    elif winner is None:
        lines.append(
            "Nothing could be measured: see the outcomes above and the logs in the study's trials folder."
        )
    elif winner.reference is not None:
        what = "survives and is faster" if gone else "is faster"
        lines.append(f"Nothing was found that {what} than {label(winner)}.")
    if winner is not None:
        lines += _confirmed(records, confirmation)
    lines += [f"Disqualified: {configuration(key, records)}: {why}." for key, why in gone.items()]
    if winner is not None:
        lines += _parts(winner)
        lines += _proof(winner, records)
    names = {device["name"]: f"{device['name']} ({device['description']})" for device in facts["devices"]}
    lines += [f"{sentence}." for sentence in not_launched_sentences(not_launched, names)]
    lines += [f"{sentence}." for sentence in slow_links(records)]
    if winner is not None:
        lines += ["The command, without host and port:", shell_command(winner.argv, winner.environment)]
    return lines


def quality_lines(records: Sequence[TrialRecord]) -> list[str]:
    """What KV types and split modes cost the answers; nothing where they were not compared."""
    rows = quality_document(records)
    if not rows:
        return []
    lines = ["Answers against the plain reference's, medians over launches (nats of next tokens):"]
    for row in rows:
        types = {row["cache_type_k"]: None, row["cache_type_v"]: None}
        deep = "" if row["deep_kl_nats"] is None else f", deep {row['deep_kl_nats']:.2g}"
        degraded = f", {row['degraded']} degraded" if row["degraded"] else ""
        lines.append(
            f"  {row['split_mode']}, kv {'/'.join(types)}: {row['kl_nats']:.2g}{deep}, same likeliest token "
            f"{row['top1']:.0%} ({row['positions']} places, {row['launches']} launches{degraded})"
        )
    return lines


def winning(records: Sequence[TrialRecord], confirmation: Confirmation | None) -> TrialRecord | None:
    """The trial that stands for the best configuration; None as long as nothing was measured."""
    key = winner_of(confirmation, records)
    return None if key is None else shown(key, records, confirmation)


def last_of_references(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Of each reference the last trial that has ended."""
    ended = [r for r in searched(records) if r.reference is not None and r.outcome is not None]
    return list({record.key: record for record in ended}.values())


def _confirmed(records: Sequence[TrialRecord], confirmation: Confirmation | None) -> list[str]:
    """By how much the winner is faster, or that nobody knows."""
    said = [] if confirmation is None else confirmation_sentences(confirmation, records)
    if confirmation is not None and result_of(confirmation, records) is not None:
        return said
    return ["Not confirmed: the winner was measured in the search alone, and may owe it to luck.", *said]


def _parts(winner: TrialRecord) -> list[str]:
    """What the winner makes by class and by depth, where there are several."""
    if winner.result is None:
        return []
    lines = []
    by_class = rates_by_class(winner.result.samples)
    if len(by_class) > 1:
        lines.append(f"By class: {'; '.join(_part(name, one, winner) for name, one in by_class.items())}.")
    by_depth = rates_by_depth(winner.result.samples)
    if len(by_depth) > 1:
        parts = (_part(f"{depth:,} tokens", one, winner) for depth, one in by_depth.items())
        lines.append(f"By depth in the context: {'; '.join(parts)}.")
    return lines


def _part(name: str, rates: Rates, winner: TrialRecord) -> str:
    """One class or depth, in the words of the goal."""
    if name == FIRST_ONLY:
        return f"{name} after {number(rates.ttft_s, '.2f', ' s')}"
    said = f"{name} {number(rates.generation_tok_s, '.1f', ' tok/s')}"
    if winner.goal.objective is Objective.TURN:
        said += f", {number(rates.turn_s, '.2f', ' s a turn')}"
    if rates.acceptance is not None:
        said += f", {rates.acceptance:.0%} of drafts accepted"
    return said


def _proof(winner: TrialRecord, records: Sequence[TrialRecord]) -> list[str]:
    """What else stands behind the winner."""
    lines = []
    quality = winner.result.quality if winner.result is not None else None
    if quality is not None and quality.loss is not None:
        lines.append(
            f"Its answers: next tokens {quality.loss.judged_nats:.2g} nats off the plain reference's "
            f"({quality.loss.positions} places, up to {quality.loss.deepest_tokens:,} tokens deep; "
            f"noise {quality.noise_floor_nats:.2g}, bound {quality.bound_nats:.2g})."
        )
    lines += _users_answers(records)
    soaked = soak_document(winner.key, records)
    if soaked is not None:
        cut = "" if soaked["outcome"] == "none" else f", which ended with {soaked['outcome']}"
        lines.append(f"Soak{cut}: {soaked['sentence'] or 'nothing was answered'}.")
    endured = endurance_document(winner.key, records)
    if endured is not None:
        lines.append(f"Endurance: {endured['sentence']}.")
    return lines


def _users_answers(records: Sequence[TrialRecord]) -> list[str]:
    """How the answers of the user's own command are; it may have a smaller cache than is searched."""
    found = [
        record.result.quality
        for record in records
        if record.reference == CURRENT and record.result is not None and record.result.quality is not None
    ]
    losses = [one.loss for one in found if one.loss is not None]
    if not losses:
        return []
    text = f"The answers of your command: next tokens {losses[-1].judged_nats:.2g} nats off the plain reference's"
    objection = found[-1].objection
    return [f"{text}." if objection is None else f"{text}; as a candidate it could not win: {objection}."]
