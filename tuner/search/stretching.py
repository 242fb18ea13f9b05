"""How much context a winner can be given: launched with what is expected to fit, and with less where that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.trial import Purpose, TrialRecord
from tuner.search.largest import STEP_TOKENS
from tuner.search.queue import wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.candidate import Candidate

#: How often a context that is expected to fit may turn out to be too large.
MOST_ATTEMPTS = 3
#: By how much less is tried then at least, as a part.
_LESS_PART = 1 / 16


def context_of(candidate: Candidate) -> int:
    """Tokens of context that a candidate has; 0 where it does not say."""
    context = candidate.get("ctx-size")
    return context if isinstance(context, int) else 0


def reached(winner: Candidate, records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The launch of a winner with the largest context that was measured; None where none was."""
    found = [record for record in _launches(winner, records) if record.may_win]
    return max(found, key=lambda record: context_of(_candidate(record)), default=None)


def next_context(winner: Candidate, records: Sequence[TrialRecord], expected: int) -> int | None:
    """Which context to launch a winner with; None where there is nothing more to be found out.

    Args:
        winner: With the context that it was tuned at.
        records: All trials of its study.
        expected: The largest that it is expected to fit with by all that is known now.
    """
    if reached(winner, records) is not None:
        return None
    launched = _launches(winner, records)
    failed: list[int] = []
    for record in launched:
        if wanted(record.key, [one for one in launched if one.key == record.key]):
            return context_of(_candidate(record))  # no fault of its own
        failed.append(context_of(_candidate(record)))
    least = min(failed, default=None)
    if least is not None:
        expected = min(expected, int(least * (1 - _LESS_PART)) // STEP_TOKENS * STEP_TOKENS)
    if expected <= context_of(winner) or len(set(failed)) >= MOST_ATTEMPTS:
        return None
    return expected


def _launches(winner: Candidate, records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Launches of a winner with more context."""
    return [
        record
        for record in records
        if record.errand.purpose is Purpose.STRETCH
        and record.candidate is not None
        and record.candidate.with_options({"ctx-size": context_of(winner)}) == winner
    ]


def _candidate(record: TrialRecord) -> Candidate:
    if record.candidate is None:
        raise ValueError(f"trial {record.number} is of no candidate")
    return record.candidate
