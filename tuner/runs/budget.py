"""How much a run may use, and whether another launch fits into what is left."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.launch import LaunchSpec
    from tuner.core.trial import TrialRecord


#: The part of the time that is kept for confirming and soaking, at most.
_MOST_RESERVED = 0.4
#: Leaders that are usually confirmed, and launches that a soak takes the time of.
_USUAL_LEADERS, _SOAK_LAUNCHES = 2, 4


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a study over all its runs; None where there is none."""

    seconds: float | None
    launches: int | None

    def why_over(self, records: Sequence[TrialRecord], used_s: float) -> str | None:
        """Why nothing more is launched; None where something may be."""
        if self.launches is not None and launches_made(records) >= self.launches:
            return f"all {self.launches} launches are made"
        if self.seconds is not None and used_s >= self.seconds:
            return f"its time of {self.seconds / 60:.1f} min is used up"
        return None

    def left_s(self, used_s: float) -> float | None:
        """Seconds that are left; None where time is not limited."""
        return None if self.seconds is None else max(self.seconds - used_s, 0.0)

    def fits(self, spec: LaunchSpec, records: Sequence[TrialRecord], used_s: float) -> bool:
        """Whether a launch is likely to end in time; as long as nothing is known, it is tried."""
        expected_s = expected(spec, records)
        return self.seconds is None or expected_s is None or used_s + expected_s <= self.seconds


def launches_made(records: Sequence[TrialRecord]) -> int:
    """How many launches count.

    One that was stopped, as by a kill of the tuner, is made again and does not count, unless nearly all of them are.
    """
    made = sum(record.outcome is None or record.outcome.kind is not Kind.STOPPED for record in records)
    return max(made, len(records) // 3)


def for_the_search(
    budget: Budget, records: Sequence[TrialRecord], *, blocks: int, n_references: int, soak: bool
) -> Budget:
    """What the search may use: all but what confirming and soaking the winner will take.

    Args:
        budget: What the study may use.
        records: All trials so far; the time of a launch follows from them.
        blocks: Launches a side of the confirmation, at most.
        n_references: References that the winner is compared with.
        soak: Whether the winner is put to the test.
    """
    if budget.seconds is None or not (blocks or soak):
        return budget
    most_s = budget.seconds * _MOST_RESERVED
    took = [record.wall_s for record in records if record.score is not None]
    if not took:
        return Budget(budget.seconds - most_s, budget.launches)
    launches = blocks * (_USUAL_LEADERS + n_references) + (_SOAK_LAUNCHES if soak else 0)
    return Budget(budget.seconds - min(most_s, launches * median(took)), budget.launches)


def expected(spec: LaunchSpec, records: Sequence[TrialRecord]) -> float | None:
    """Seconds that a launch will take, from the measured ones of its split mode, else from all."""
    measured = [record for record in records if record.score is not None]
    mode = None if spec.candidate is None else spec.candidate.get("split-mode")
    alike = [r.wall_s for r in measured if r.candidate is not None and r.candidate.get("split-mode") == mode]
    every = [record.wall_s for record in measured]
    return median(alike) if alike else median(every) if every else None
