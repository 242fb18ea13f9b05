"""One trial of a study, as it is stored and as decisions are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.launch import trial_key
from tuner.core.measurement import Rates, rates
from tuner.core.outcome import Outcome, TrialState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchResult


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A trial; without a result it is still running, or its tuner died."""

    number: int
    candidate: Candidate | None
    reference: str | None
    argv: tuple[str, ...]
    """The command as a user would run it."""
    environment: Mapping[str, str]
    """Environment variables that belong to the command."""
    result: LaunchResult | None
    wall_s: float
    """From the decision to launch until it was recorded; 0 while it runs."""
    estimate_tok_s: float | None = None
    """What it makes by all trials of the study together; None where nothing says more than its own score."""

    @property
    def key(self) -> str:
        """Equal for trials of the same candidate or reference."""
        return trial_key(self.candidate, self.reference)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs."""
        return None if self.result is None else self.result.outcome

    @property
    def rates(self) -> Rates | None:
        """What its samples add up to; None where they do not count."""
        if self.result is None or not self.result.outcome.policy.measured:
            return None
        return rates(self.result.samples)

    @property
    def score(self) -> float | None:
        """Generated tokens a second, what is maximised; None where nothing was measured."""
        return None if self.rates is None else self.rates.generation_tok_s

    @property
    def worth(self) -> float:
        """What winners are chosen by: one lucky measurement does not count in full."""
        return self.estimate_tok_s if self.estimate_tok_s is not None else self.score or 0.0

    @property
    def may_win(self) -> bool:
        """Whether it can be the best configuration."""
        return self.score is not None and self.outcome is not None and self.outcome.policy.may_win

    @property
    def state(self) -> TrialState | None:
        """What the study is told; None while it runs."""
        if self.outcome is None:
            return None
        if self.outcome.policy.state is TrialState.COMPLETE and self.score is None:
            return TrialState.PRUNED  # nothing that could be a value
        return self.outcome.policy.state


def best_of(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The record that is worth most and may win; the earlier one of equals, None where there is none."""
    winners = [record for record in records if record.may_win]
    return max(winners, key=lambda record: (record.worth, -record.number)) if winners else None
