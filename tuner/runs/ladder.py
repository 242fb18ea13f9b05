"""Climbing a ladder of contexts: from the smallest up, each rung with all that those below have taught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.ladder import share_s
from tuner.core.trial import searched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.ladder import Contexts, Rung
    from tuner.core.trial import TrialRecord

#: How often a context that was found out to be the largest may turn out to be too large.
MOST_ATTEMPTS = 3
#: By how much less is tried then at least, as a part, and in which steps.
_LESS_PART, _STEP_TOKENS = 1 / 16, 256


@dataclass(frozen=True, slots=True)
class RungOrder:
    """What is wanted of a rung."""

    context: int
    is_max: bool
    budget_s: float | None
    before: tuple[TrialRecord, ...] = ()
    """Trials of the rungs below, as if they had been made at this context: they say how fast things are."""
    starts: tuple[tuple[str, Candidate], ...] = ()
    """What to try first, with a word on why."""


@dataclass(frozen=True, slots=True)
class RungEnd:
    """What came of a rung."""

    rung: Rung
    records: tuple[TrialRecord, ...]
    winner: Candidate | None
    used_s: float
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Climb:
    """How far the ladder was climbed."""

    rungs: tuple[Rung, ...]
    tried_as_max: tuple[int, ...] = ()
    """Contexts that were found out to be the largest, in order; all but the last were not."""
    interrupted: bool = False


class Ladder:
    """The climb.

    Args:
        contexts: What was asked for.
        budget_s: For all rungs; None for any.
        make: Tunes one rung, new or resumed.
        largest: The largest context that fits by all that is known now; None where nothing fits.
        modest: What is likeliest to fit at a context; None where nothing is known to.
        publish: Is told after each rung.
        note: Is told what a reader should know.
        known_max: What a run before this one has found out to be the largest, in order.
    """

    def __init__(
        self,
        contexts: Contexts,
        *,
        budget_s: float | None,
        make: Callable[[RungOrder], RungEnd],
        largest: Callable[[], int | None],
        modest: Callable[[int], Candidate | None],
        publish: Callable[[Climb], None],
        note: Callable[[str], None],
        known_max: Sequence[int] = (),
    ) -> None:
        self._contexts = contexts
        self._budget_s = budget_s
        self._make = make
        self._largest = largest
        self._modest = modest
        self._publish = publish
        self._note = note
        self._known_max = list(known_max)
        self._ends: list[RungEnd] = []
        self._tried: list[int] = []

    def run(self) -> Climb:
        """Climb as far as it goes."""
        for context in self._contexts.tokens:
            end = self._climb(context, is_max=False)
            if end.interrupted:
                return self._climbed(interrupted=True)
            if end.winner is None:
                self._note(f"{context:,} tokens: nothing runs here, so nothing above is tried")
                break
        if self._contexts.with_max and self._climb_to_the_top():
            return self._climbed(interrupted=True)
        return self._climbed()

    def _climb_to_the_top(self) -> bool:
        """The largest context that fits; whether somebody asked to stop."""
        reached = max((end.rung.context for end in self._ends if end.winner is not None), default=0)
        while len(self._tried) < MOST_ATTEMPTS:
            known = self._known_max[len(self._tried) :]
            found = known[0] if known else self._largest()
            if self._tried and found is not None:
                found = min(found, _less(self._tried[-1]))
            if found is None or found <= reached:
                self._note(
                    f"max: nothing above {reached:,} tokens fits"
                    if reached
                    else "max: no context fits at all"
                )
                return False
            self._tried.append(found)
            self._publish(self._climbed())  # a resumed climb goes on with the same context
            end = self._climb(found, is_max=True)
            if end.interrupted or end.winner is not None:
                return end.interrupted
            self._note(f"{found:,} tokens are more than fit after all")
        return False

    def _climb(self, context: int, *, is_max: bool) -> RungEnd:
        budget_s = share_s(self._budget_s, [end.used_s for end in self._ends], self._contexts.n_rungs)
        self._ends.append(
            self._make(
                RungOrder(
                    context, is_max, budget_s, self._before(context), self._starts(context, is_max=is_max)
                )
            )
        )
        self._publish(self._climbed())
        return self._ends[-1]

    def _before(self, context: int) -> tuple[TrialRecord, ...]:
        records = [record for end in self._ends for record in searched(end.records)]
        return tuple(
            replace(record, candidate=record.candidate.with_options({"ctx-size": context}))
            for record in records
            if record.candidate is not None and record.result is not None
        )

    def _starts(self, context: int, *, is_max: bool) -> tuple[tuple[str, Candidate], ...]:
        """At the top what is likeliest to fit; below, the winner of the highest rung that has one."""
        modest = self._modest(context) if is_max else None
        if modest is not None:
            return (("what takes least memory", modest),)
        for end in reversed(self._ends):
            if end.winner is not None:
                return (
                    (f"best at {end.rung.context:,} tokens", end.winner.with_options({"ctx-size": context})),
                )
        return ()

    def _climbed(self, *, interrupted: bool = False) -> Climb:
        return Climb(tuple(end.rung for end in self._ends), tuple(self._tried), interrupted)


def _less(context: int) -> int:
    """What is tried at most after a context that was too large."""
    return int(context * (1 - _LESS_PART)) // _STEP_TOKENS * _STEP_TOKENS
