"""What a run shows while it goes on: a line for each trial, so that it reads the same in a log file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tuner.cli.screen import duration
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose, best_of
from tuner.report.best import shell_command
from tuner.report.proof import soaked_sentence
from tuner.report.words import scored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.launch import LaunchSpec
    from tuner.core.measurement import Sample
    from tuner.core.trial import TrialRecord
    from tuner.runs.budget import Budget


class LineProgress:
    """Says what happens, line by line.

    Args:
        say: Prints a line.
        budget: What may be used.
        used_before_s: Seconds of it that earlier runs have used.
        name: Of the study, where there are several; empty where there is one.
    """

    def __init__(
        self, say: Callable[[str], None], budget: Budget, used_before_s: float, *, name: str = ""
    ) -> None:
        self._say = say
        self._name = f"{name}: " if name else ""
        self._budget = budget
        self._used_before_s = used_before_s
        self._started = time.monotonic()
        self._best = ""
        self._pasted = False

    def note(self, text: str) -> None:
        """Something that a reader of the run should know."""
        self._say(f"{self._name}{text}")

    def trial_begins(self, number: int, spec: LaunchSpec, why: str) -> None:
        """A launch is about to be made."""
        best = f", best {self._best}" if self._best else ""
        reason = f"  ({why})" if why != "reference" else ""
        self._say(f"[{number:3d}] {self._clock()}{best}: {self._name}{spec.label}{reason}")

    def sample(self, sample: Sample) -> None:
        """A request was answered: nothing is said, the trial's line says it all."""

    def trial_ended(self, record: TrialRecord, records: Sequence[TrialRecord]) -> None:
        """A launch was recorded."""
        outcome, rates = record.outcome, record.rates
        if record.errand.purpose in {Purpose.SOAK, Purpose.ENDURE}:
            self._say(f"      {_soaked(record)}")
            return
        if rates is None or rates.generation_tok_s is None:
            said = "no result" if outcome is None else f"{outcome.sentence()}: {outcome.evidence[:160]}"
            self._say(f"      {said}")
            return
        parts = [scored(record, rates)]
        if rates.prompt_tok_s is not None:
            parts.append(f"prompt {rates.prompt_tok_s:.0f} tok/s")
        if rates.acceptance is not None:
            parts.append(f"acceptance {rates.acceptance:.0%}")
        if outcome is not None and not outcome.policy.may_win:
            parts.append(f"{outcome.kind}: {outcome.evidence[:120]}")
        if record.errand.purpose is not Purpose.SEARCH:
            self._say("      " + ", ".join(parts))
            return
        best = best_of(records)
        is_best = best is not None and best.number == record.number and record.reference is None
        if is_best:
            parts.append(f"best so far{_against(record, records)}")
        self._say("      " + ", ".join(parts))
        if best is not None and best.score is not None:
            self._best = "" if best.rates is None else scored(best, best.rates)
        if is_best and not self._pasted and any(r.reference is not None and r.score for r in records):
            self._pasted = True
            self._say(f"      to use it already: {shell_command(record.argv, record.environment)}")

    def _clock(self) -> str:
        used_s = self._used_before_s + time.monotonic() - self._started
        if self._budget.seconds is None:
            return duration(used_s)
        return f"{duration(max(self._budget.seconds - used_s, 0))} left"


def _soaked(record: TrialRecord) -> str:
    """What a winner went through, and how it came out."""
    soaked, outcome = record.result and record.result.soak, record.outcome
    said = "no result" if outcome is None else outcome.sentence()
    if outcome is not None and outcome.kind is Kind.NONE:
        said = "survived"
    elif outcome is not None:
        said += f": {outcome.evidence[:160]}"
    return said if not soaked else f"{said}; {soaked_sentence(soaked)}"


def _against(record: TrialRecord, records: Sequence[TrialRecord]) -> str:
    reference = next((r for r in records if r.reference == ENGINE_DEFAULT and r.score is not None), None)
    if reference is None or reference.score is None or record.score is None:
        return ""
    return f", {record.score / reference.score:.2f} times the engine's own choice"
