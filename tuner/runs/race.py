"""What a race of several studies is run with: the studies, the time for all of them, and what is kept beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Protocol

from tuner.core.trial import searched
from tuner.runs.budget import Budget, launches_made

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.interrupt import Interrupts
    from tuner.core.trial import Errand, TrialRecord
    from tuner.runs.ending import Ending
    from tuner.search.race_state import RaceState
    from tuner.search.racing import Runner


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of a search."""

    launches: int
    """How many launches the study's search has made once it is through, references included."""
    seconds: float | None
    """How long it may take; None for any."""


class Racer(Protocol):
    """One study of a race."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def n_references(self) -> int:
        """References that its winner is compared with."""

    def records(self) -> Sequence[TrialRecord]:
        """All its trials."""

    def runner(self, *, over: bool) -> Runner:
        """What is known of it.

        Args:
            over: Whether its search has nothing left to find.
        """

    def has_reference(self) -> bool:
        """Whether its plain reference was looked at, so that others can be compared with it."""

    def winner(self) -> str | None:
        """The key of its best configuration; None where nothing was measured."""

    def users_command(self) -> str | None:
        """The key of the user's own command; None where that belongs to another study, or does not run."""

    def search(self, turn: Turn) -> Ending:
        """Search for a while.

        Raises:
            TunerError: It cannot go on.
        """

    def prove(self, budget_s: float | None, endure_s: float) -> Ending:
        """Confirm its leaders, and put the winner to the test.

        Args:
            budget_s: What the study may use in all, in seconds; None for any.
            endure_s: For how long the winner is let work.

        Raises:
            TunerError: The run cannot go on.
        """

    def endured_s(self) -> float:
        """For how long its winner has been let work."""

    def expected_context(self, winner: Candidate) -> int:
        """The largest context that its winner is expected to fit with."""

    def stretch(self, winner: Candidate, context: int, limit_s: float | None) -> TrialRecord | None:
        """Launch its winner with another context; None where somebody asked to stop.

        Raises:
            TunerError: The run cannot go on.
        """

    def measure(self, key: str, why: str, errand: Errand, limit_s: float | None) -> TrialRecord | None:
        """Launch what has that key once more; None where somebody asked to stop.

        Raises:
            TunerError: The run cannot go on.
        """


class Race:
    """A race: its studies, its time, its state. What the state says is on disk before anything follows from it.

    Args:
        racers: In the order of their first turns.
        state: Where it stands.
        budget: For all of them together.
        keep: Writes down its state, and what there is of the result.
        note: Is told what a reader should know.
        interrupts: Requests to stop.
    """

    def __init__(
        self,
        racers: Sequence[Racer],
        state: RaceState,
        *,
        budget: Budget,
        keep: Callable[[Race], None],
        note: Callable[[str], None],
        interrupts: Interrupts,
    ) -> None:
        self.racers = tuple(racers)
        self.state = state
        self.budget = budget
        self.note = note
        self.interrupts = interrupts
        self._keep = keep
        self._used_before_s = sum(record.wall_s for racer in racers for record in racer.records())
        self._started = time.monotonic()

    def now(self, state: RaceState) -> None:
        """It stands like this now."""
        self.state = state
        self._keep(self)

    def racer(self, name: str) -> Racer:
        """The study of that name."""
        return next(racer for racer in self.racers if racer.name == name)

    @property
    def left(self) -> list[Racer]:
        """Studies that can still win."""
        return [racer for racer in self.racers if racer.name not in self.state.gone]

    @property
    def left_s(self) -> float | None:
        """Seconds that are left; None for any."""
        return self.budget.left_s(self._used_before_s + time.monotonic() - self._started)

    @property
    def left_launches(self) -> int | None:
        """Launches that searches may still make; None for any."""
        if self.budget.launches is None:
            return None
        made = sum(launches_made(searched(racer.records())) for racer in self.racers)
        return max(self.budget.launches - made, 0)


def usual_wall_s(records: Sequence[TrialRecord]) -> float | None:
    """What a launch of a study usually takes; None before the first was measured."""
    took = [record.wall_s for record in records if record.score is not None]
    return median(took) if took else None
