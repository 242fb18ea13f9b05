"""Numbers and rates as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.objective import Objective

if TYPE_CHECKING:
    from tuner.core.measurement import Rates
    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.interval import Interval

NOTHING = "-"


def number(value: float | None, form: str, unit: str = "") -> str:
    """A value in a format of Python's, with its unit; a dash where there is none."""
    return NOTHING if value is None else f"{value:{form}}{unit}"


def times(ratio: float) -> str:
    """A ratio: what is certainly more than 1 is not shown as 1."""
    return f"{ratio:.3f}" if 0.1 < ratio < 10 else f"{ratio:.3g}"


def ratio_words(interval: Interval) -> str:
    """A ratio with its interval."""
    return f"{times(interval.ratio)}x (95 %: {times(interval.low)} to {times(interval.high)})"


def scored(record: TrialRecord, rates: Rates) -> str:
    """What a launch makes, in the words of its goal."""
    each = number(rates.generation_tok_s, ".1f", " tok/s")
    if record.goal.objective is Objective.TURN and rates.turn_s is not None:
        return f"{rates.turn_s:.2f} s a turn, {each}"
    if record.goal.objective is Objective.THROUGHPUT and record.score is not None:
        return f"{record.score:.1f} tok/s in all, {each} each"
    return each
