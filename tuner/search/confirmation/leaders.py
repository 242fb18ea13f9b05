"""Who is confirmed, and in how many blocks: those that are not clearly worse than the best, as time allows."""

from __future__ import annotations

from math import exp, hypot, sqrt
from typing import TYPE_CHECKING

from tuner.core.objective import Objective
from tuner.core.outcome import Kind
from tuner.core.trial import disqualified, searched
from tuner.search.confirmation.verdict import LEAST_BLOCKS
from tuner.search.pruning import DRAFT_SIGMA, LAUNCH_SIGMA, REQUEST_SIGMA

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tuner.core.trial import TrialRecord

#: More are never confirmed: each costs a launch a block, and widens every interval.
MOST_LEADERS = 4
#: Blocks that are wanted before another leader is worth its launches: those before the first look.
ENOUGH_BLOCKS = 4
_CLEARLY = 2.0


def leaders_of(records: Sequence[TrialRecord], out: Collection[str] = ()) -> list[TrialRecord]:
    """The candidates that may be the best, the likeliest first.

    Args:
        records: All trials.
        out: Keys of candidates that are out of the question; where no other was measured in full, those that
            were given up have their chance.
    """
    best_of_each: dict[str, TrialRecord] = {}
    gone = {*out, *disqualified(records)}
    for record in searched(records):
        if record.candidate is None or not record.may_win or record.key in gone:
            continue
        if record.key not in best_of_each or record.worth > best_of_each[record.key].worth:
            best_of_each[record.key] = record
    ranked = sorted(best_of_each.values(), key=lambda record: (-record.worth, record.number))
    if not ranked:
        return _given_up(records, gone)[:MOST_LEADERS]
    best = ranked[0]
    close = [one for one in ranked if is_close(one, best)]
    leaders = close[:MOST_LEADERS]
    if best.goal.objective is Objective.THROUGHPUT:
        # whether drafts pay with all slots busy is asked of launches that are compared, not of the search
        plain = next((one for one in ranked if one.candidate is not None and not one.candidate.drafts), None)
        if plain is not None and plain not in leaders:
            leaders = [*leaders[: MOST_LEADERS - 1], plain]
    return leaders


def is_close(one: TrialRecord, best: TrialRecord) -> bool:
    """Whether a configuration is not clearly worse than another, by a launch of each."""
    return one.worth >= best.worth * exp(-_CLEARLY * hypot(_sigma(one), _sigma(best)))


def _given_up(records: Sequence[TrialRecord], gone: Collection[str]) -> list[TrialRecord]:
    """Candidates that were given up beside one that is out of the question now, the fastest first."""
    rows = [
        (rate, record)
        for record in searched(records)
        if record.candidate is not None
        and record.key not in gone
        and record.outcome is not None
        and record.outcome.kind is Kind.PRUNED
        and record.result is not None
        and (rate := record.goal.rate_tok_s(record.result.samples)) is not None
    ]
    return [record for _, record in sorted(rows, key=lambda row: (-row[0], row[1].number))]


def affordable(
    leaders_s: Sequence[float], references_s: Sequence[float], *, blocks: int, seconds: float | None
) -> tuple[int, int]:
    """How many leaders, from the first on, and how many blocks a time allows; (0, 0) where it allows none.

    Args:
        leaders_s: What a launch of each leader takes, in seconds.
        references_s: What a launch of each reference takes.
        blocks: How many blocks are wanted at most.
        seconds: How much time there is; None for any.
    """
    if seconds is None:
        return len(leaders_s), blocks
    for many in range(len(leaders_s), 0, -1):
        each_s = sum(leaders_s[:many]) + sum(references_s)
        possible = min(int(seconds / each_s), blocks) if each_s > 0 else blocks
        if possible >= min(ENOUGH_BLOCKS, blocks) or (many == 1 and possible >= LEAST_BLOCKS):
            return many, possible
    return 0, 0


def _sigma(record: TrialRecord) -> float:
    """Standard deviation of the logarithm of what one launch of it measures."""
    depth = 0 if record.candidate is None else record.candidate.draft_depth
    requests = 1 if record.result is None else max(len(record.result.samples), 1)
    return hypot(LAUNCH_SIGMA, (REQUEST_SIGMA + DRAFT_SIGMA * depth) / sqrt(requests))
