"""What failed launches say of configurations like them.

A launch fails for a reason that its log names, but which of its options was at fault it seldom says. So every
property that failures share, and that no launch that worked has had, is suspected: a mode, a KV type, a way to
reduce, drafts, and pairs of a mode with each of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.core.outcome import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tuner.core.trial import TrialRecord
    from tuner.search.speed.model import Rows

#: How much a failure counts: what the engine refuses it will refuse again, a crash may have been bad luck.
_WEIGHTS = {
    Kind.UNSUPPORTED: 3.0,
    Kind.DRAFT_UNAVAILABLE: 3.0,
    Kind.NOT_AS_ASKED: 3.0,
    Kind.DEGRADED: 2.0,
    Kind.CRASHED: 1.5,
    Kind.HUNG: 1.5,
    Kind.TIMED_OUT: 1.0,
}
#: Launches that worked; what was given up for being slow worked too.
_WORKED = frozenset({Kind.NONE, Kind.PRUNED})


def failed(record: TrialRecord) -> bool:
    """Whether a trial says something of candidates like its own; running out of memory has a model of its own."""
    return record.outcome is not None and record.outcome.kind in _WEIGHTS


def worked(record: TrialRecord) -> bool:
    """Whether a trial shows that its properties are sound."""
    return record.outcome is not None and record.outcome.kind in _WORKED


def chance_to_work(rows: Rows, seen: Rows, records: Sequence[TrialRecord]) -> NDArray[np.float64]:
    """The probability, from 0 to 1, that each configuration does not fail for one of its properties.

    Args:
        rows: Configurations.
        seen: Those of the trials.
        records: The trials, as many, those that failed or worked.
    """
    chance = np.ones(len(rows))
    bad = np.array([_WEIGHTS.get(r.outcome.kind, 0.0) if r.outcome is not None else 0.0 for r in records])
    if not bad.any():
        return chance
    good = np.array([float(worked(record)) for record in records])
    for here, there in zip(_properties(rows), _properties(seen), strict=True):
        for value in np.unique(there[bad > 0]):
            weight = bad[there == value].sum()
            sound = good[there == value].sum()
            suspected = (1 + sound) / (1 + sound + weight * (1 + weight if sound == 0 else 1))
            chance = np.where(here == value, np.minimum(chance, suspected), chance)
    return chance


def _properties(rows: Rows) -> list[NDArray[np.int_]]:
    """Columns of properties, each value a number; the last ones are pairs with the mode."""
    mode = np.where(rows.tensor, 2, np.where(rows.boundaries > 0, 1, 0))
    single = [
        mode,
        rows.quantised.astype(int),
        rows.internal.astype(int) * rows.tensor,
        (rows.depth > 0).astype(int),
        rows.ngram.astype(int),
    ]
    return [*single, *(mode * 2 + column for column in single[1:])]
