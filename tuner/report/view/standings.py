"""The winner beside what it was compared with: the engine's own choice, the user's command, what owners published."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from tuner.core.candidate import Candidate
from tuner.core.measurement import FIRST_ONLY, rates_by_class, rates_by_depth
from tuner.core.published import published_for
from tuner.report.best import shown
from tuner.report.headline import last_of_references, winning
from tuner.report.proof import label
from tuner.report.words import NOTHING, number, ratio_words
from tuner.search.confirmation.interval import paired
from tuner.search.confirmation.result import result_of
from tuner.search.confirmation.state import launches_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.trial import TrialRecord
    from tuner.report.view.inputs import ReportInputs
    from tuner.search.confirmation.interval import Interval
    from tuner.search.confirmation.state import Confirmation


@dataclass(frozen=True, slots=True)
class Standing:
    """The winner, or one reference."""

    role: str
    """`winner`, or the reference's name."""
    configuration: str
    record: TrialRecord
    failure: str
    """Why there is no rate; empty where there is one."""
    interval: Interval | None
    """By how much the winner is faster; None for the winner itself, and where it is not confirmed."""
    once: float | None
    """The same in one launch of each, where there is no interval."""

    @property
    def ratio(self) -> str:
        """By how much the winner is faster, in words."""
        if self.interval is not None:
            unsure = "" if self.interval.significant else ", no significant difference"
            return f"{ratio_words(self.interval)}{unsure}"
        return NOTHING if self.once is None else f"{self.once:.2f}x, one launch of each"


@dataclass(frozen=True, slots=True)
class ClassStanding:
    """The winner against one reference in one class of prompts, or at one depth of the context."""

    name: str
    reference: str
    winner_tok_s: float | None
    reference_tok_s: float | None
    winner_acceptance: float | None
    interval: Interval | None
    """For this class alone; None where it is not confirmed."""


@dataclass(frozen=True, slots=True)
class PublishedStanding:
    """What an owner of such cards has published, and what its options made here."""

    source: str
    claim: str
    options: str
    here_tok_s: float | None
    """The best that was measured here with those options; None where nothing was."""


def standings(inputs: ReportInputs) -> list[Standing]:
    """The winner first, then each reference."""
    records, confirmation = inputs.records, inputs.confirmation
    winner = winning(records, confirmation)
    intervals = _intervals(records, confirmation)
    found = [] if winner is None else [Standing("winner", label(winner), winner, "", None, None)]
    for last in last_of_references(records):
        record = shown(last.key, records, confirmation)
        outcome = record.outcome
        failure = "" if outcome is None or outcome.policy.measured else outcome.sentence()
        interval = intervals.get(record.key)
        once = None
        if interval is None and winner is not None and winner.score and record.score:
            once = winner.score / record.score
        if winner is not None and winner.key == record.key:
            continue
        found.append(Standing("reference", label(record), record, failure, interval, once))
    return found


def class_standings(inputs: ReportInputs) -> list[ClassStanding]:
    """The winner against each reference, by class of prompts."""
    return _parts(inputs, by_depth=False)


def depth_standings(inputs: ReportInputs) -> list[ClassStanding]:
    """The winner against each reference, by depth of the context; empty where all was asked at one depth."""
    found = _parts(inputs, by_depth=True)
    return found if len({one.name for one in found}) > 1 else []


def published_standings(inputs: ReportInputs) -> list[PublishedStanding]:
    """What owners of exactly these cards have published; empty for cards of which nothing is known here."""
    found = []
    for one in published_for([device["description"] for device in inputs.facts["devices"]]):
        here = [
            record.score
            for record in inputs.records
            if record.candidate is not None
            and record.score is not None
            and all(record.candidate.get(name) == value for name, value in one.options.items())
        ]
        options = Candidate.of(one.options)
        words = ", ".join(f"{name} {_value(value)}" for name, value in options.items)
        found.append(PublishedStanding(one.source, one.claim, words, max(here, default=None)))
    return found


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _intervals(records: Sequence[TrialRecord], confirmation: Confirmation | None) -> dict[str, Interval]:
    result = None if confirmation is None else result_of(confirmation, records)
    if result is None:
        return {}
    return {one.arm: one.interval for one in result.references if one.interval is not None}


def _parts(inputs: ReportInputs, *, by_depth: bool) -> list[ClassStanding]:
    records, confirmation = inputs.records, inputs.confirmation
    winner = winning(records, confirmation)
    if winner is None or winner.result is None:
        return []
    intervals = _intervals(records, confirmation)
    own = _rates(winner, by_depth=by_depth)
    found = []
    for standing in standings(inputs)[1:]:
        theirs = _rates(standing.record, by_depth=by_depth)
        overall = intervals.get(standing.record.key)
        for name, (tok_s, acceptance) in own.items():
            interval = None
            if overall is not None and confirmation is not None:
                launched = launches_of(confirmation, records)
                ratios = _log_ratios(launched, (winner.key, standing.record.key), name, by_depth=by_depth)
                interval = paired(ratios, overall.alpha)
            found.append(
                ClassStanding(
                    name,
                    standing.configuration,
                    tok_s,
                    theirs.get(name, (None, None))[0],
                    acceptance,
                    interval,
                )
            )
    return found


def _rates(record: TrialRecord, *, by_depth: bool) -> dict[str, tuple[float | None, float | None]]:
    """Generated tokens a second and acceptance, by class or depth."""
    if record.result is None or record.score is None:
        return {}
    if by_depth:
        depths = rates_by_depth(record.result.samples)
        return {f"{depth:,} tokens": (one.generation_tok_s, one.acceptance) for depth, one in depths.items()}
    classes = rates_by_class(record.result.samples)
    return {
        name: (one.generation_tok_s, one.acceptance) for name, one in classes.items() if name != FIRST_ONLY
    }


def _log_ratios(
    launched: Sequence[TrialRecord], keys: tuple[str, str], name: str, *, by_depth: bool
) -> list[float]:
    """The logarithm of the winner's rate over the reference's, one for each block that has both."""
    rates: list[dict[int, float]] = [{}, {}]
    for record in launched:
        tok_s = _rates(record, by_depth=by_depth).get(name, (None, None))[0]
        if record.key in keys and tok_s:
            rates[keys.index(record.key)][record.errand.block] = tok_s  # the later of two launches counts
    own, other = rates
    return [log(tok_s / other[block]) for block, tok_s in own.items() if block in other]


def standing_cells(one: Standing) -> tuple[str, ...]:
    """Rate, prompt rate, first token and acceptance, as people read them."""
    rates = one.record.rates
    if rates is None:
        return (NOTHING,) * 4
    return (
        number(rates.generation_tok_s, ".1f"),
        number(rates.prompt_tok_s, ".0f"),
        number(rates.ttft_s, ".2f", " s"),
        number(rates.acceptance, ".0%"),
    )
