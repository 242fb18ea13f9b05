"""The result of a study in one sentence, and what stands behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.launch import CURRENT
from tuner.core.trial import disqualified
from tuner.report.best import shell_command
from tuner.report.headline import headline, last_of_references, quality_lines, winning
from tuner.report.proof import label
from tuner.report.words import ratio_words, scored, times
from tuner.search.confirmation.result import result_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.trial import TrialRecord
    from tuner.report.view.inputs import ReportInputs
    from tuner.search.confirmation.result import Versus
    from tuner.search.confirmation.state import Confirmation

_COMMAND_FOLLOWS = "The command, without host and port:"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reader wants to know first."""

    sentence: str
    configuration: str | None
    """What won; None as long as nothing was measured."""
    command: str | None
    """To paste, without host and port."""
    behind: tuple[str, ...]
    """What stands behind it, a sentence each."""
    state: str
    """Whether a run still goes on, and how far it is."""


def verdict(inputs: ReportInputs) -> Verdict:
    """The verdict on a study as it is now."""
    records, confirmation = inputs.records, inputs.confirmation
    winner = winning(records, confirmation)
    lines = headline(records, inputs.not_launched, inputs.facts, confirmation)
    if _COMMAND_FOLLOWS in lines:
        lines = lines[: lines.index(_COMMAND_FOLLOWS)]
    behind = (*lines, *quality_lines(records))
    if winner is None:
        sentence = "Nothing was measured yet." if inputs.running else behind[0]
        return Verdict(sentence, None, None, behind[1:], _state(inputs))
    return Verdict(
        sentence=verdict_sentence(records, confirmation),
        configuration=label(winner),
        command=shell_command(winner.argv, winner.environment),
        behind=behind,
        state=_state(inputs),
    )


def verdict_sentence(records: Sequence[TrialRecord], confirmation: Confirmation | None) -> str:
    """What won, what it makes and by how much it is faster; the user's own command is compared first."""
    winner = winning(records, confirmation)
    if winner is None:
        return "Nothing could be measured."
    made = label(winner) if winner.rates is None else f"{label(winner)} makes {scored(winner, winner.rates)}"
    if winner.reference is not None:
        survives = "survives and is faster" if disqualified(records) else "is faster"
        return f"Nothing was found that {survives}: {made}."
    result = None if confirmation is None else result_of(confirmation, records)
    references = sorted(last_of_references(records), key=lambda one: one.reference != CURRENT)
    if result is None:
        return f"So far the best: {made}{_once(winner, references)}. It is not confirmed."
    compared = {versus.arm: versus for versus in result.references}
    for reference in references:
        versus = compared.get(reference.key)
        if versus is not None and versus.interval is not None:
            return f"{made}, {_versus(versus, reference)}."
    gone = next((one for one in references if one.outcome and not one.outcome.policy.measured), None)
    if gone is None or gone.outcome is None:
        return f"{made}."
    return f"{made}; {label(gone)} does not run here ({gone.outcome.sentence()})."


def _versus(versus: Versus, reference: TrialRecord) -> str:
    interval = versus.interval
    if interval is None or not interval.significant:
        unsure = "" if interval is None else f": {ratio_words(interval)}"
        return f"which is no significant difference from {label(reference)}{unsure}"
    return (
        f"{times(interval.ratio)} times {label(reference)} "
        f"(95 %: {times(interval.low)} to {times(interval.high)})"
    )


def _once(winner: TrialRecord, references: Sequence[TrialRecord]) -> str:
    """By how much it is faster in one launch of each, which is all there is."""
    for reference in references:
        if reference.score is not None and winner.score is not None:
            return f", {winner.score / reference.score:.2f} times {label(reference)} in one launch of each"
    return ""


def _state(inputs: ReportInputs) -> str:
    count = len(inputs.records)
    trials = f"{count:,} launch{'' if count == 1 else 'es'}"
    if inputs.running:
        return f"The run is going on: {trials} so far."
    if inputs.confirmation is not None and not inputs.confirmation.ended:
        return f"{trials}; the run was stopped during its confirmation, the same command goes on with it."
    return f"{trials}; no run is going on."
