"""One trial of a study, as it is stored and as decisions are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tuner.core.launch import PREVIOUS, trial_key
from tuner.core.measurement import Rates, rates
from tuner.core.objective import GENERATION, Goal
from tuner.core.outcome import Kind, Outcome, TrialState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchResult
    from tuner.core.measurement import Sample


class Purpose(StrEnum):
    """What a launch was made for."""

    SEARCH = "search"
    """To find out what is fast; the search learns from these alone."""
    CONFIRM = "confirm"
    """To know how fast: leaders and references, interleaved."""
    SOAK = "soak"
    """To see whether it survives what it is for."""
    ENDURE = "endure"
    """As above, for hours."""
    STRETCH = "stretch"
    """To see whether it also runs with the largest context that is expected to fit."""
    COMPARE = "compare"
    """To know which of several studies' winners is fastest: all of them, interleaved."""
    CANARY = "canary"
    """To see whether what was best elsewhere, as with another build, still is; the search learns from it, too."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What a launch is made for, and where it belongs."""

    purpose: Purpose = Purpose.SEARCH
    round: int = 0
    """Which confirmation or comparison it belongs to, from 1 on; 0 for the search. A canary is one, too."""
    block: int = 0
    """Which block of that, from 0 on."""


SEARCHING = Errand()
_TO_FIND_OUT = frozenset({Purpose.SEARCH, Purpose.CANARY})
#: How a server ends that takes a device with it.
_LOST = frozenset({Kind.RPC_LOST})


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
    errand: Errand = SEARCHING
    goal: Goal = GENERATION
    """What its study is made for."""
    worker: str | None = None
    """Who made it, where several machines work on one study."""

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
        samples = self._counting
        return None if samples is None else rates(samples)

    @property
    def score(self) -> float | None:
        """Tokens a second as the study's goal counts them, what is maximised; None where nothing was measured."""
        samples = self._counting
        return None if samples is None else self.goal.rate_tok_s(samples)

    @property
    def decode_tok_s(self) -> float | None:
        """The part of its score that generating alone makes; None where nothing was measured."""
        samples = self._counting
        return None if samples is None else self.goal.decode_tok_s(samples)

    @property
    def _counting(self) -> Sequence[Sample] | None:
        """Its samples, where they are this configuration's speed."""
        if self.result is None or not self.result.outcome.policy.measured:
            return None
        return self.result.samples

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


def searched(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Those that were launched to find out what is fast; what was best before, as it was, is no part of it."""
    return [
        record for record in records if record.errand.purpose in _TO_FIND_OUT and record.reference != PREVIOUS
    ]


def disqualified(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Keys of what did not survive a soak or an endurance, and why.

    A server that takes an RPC server with it did not survive either: that is how a lack of its memory shows.
    """
    found: dict[str, str] = {}
    for record in records:
        outcome = record.outcome
        if record.errand.purpose not in {Purpose.SOAK, Purpose.ENDURE} or outcome is None:
            continue
        blameless = outcome.policy.state is TrialState.FAIL and outcome.kind not in _LOST
        if outcome.kind is not Kind.NONE and not blameless:
            found[record.key] = f"{outcome.sentence()}: {outcome.evidence}".rstrip(": ")
    return found


def best_of(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The record of the search that is worth most and may win; the earlier of equals, None where there is none."""
    gone = disqualified(records)
    winners = [record for record in searched(records) if record.may_win and record.key not in gone]
    return max(winners, key=lambda record: (record.worth, -record.number)) if winners else None
