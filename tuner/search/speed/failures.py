"""What failed launches say of configurations like them.

A launch fails for a reason that its log names, but which of its options was at fault it seldom says. Every property
may be: a mode, a KV type, a way to reduce, drafts, and some of these together. Each has a probability of its own to
make a launch fail (a noisy-or), fitted by expectation maximisation: a failure's blame is shared among the
properties that it had, and a launch that worked clears those that it had.
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

#: How many observations a launch counts as: what the engine refuses it will refuse again, a crash may be bad luck.
_WEIGHTS = {
    Kind.UNSUPPORTED: 20.0,
    Kind.DRAFT_UNAVAILABLE: 20.0,
    Kind.NOT_AS_ASKED: 20.0,
    Kind.DEGRADED: 20.0,
    Kind.CRASHED: 3.0,
    Kind.HUNG: 3.0,
    Kind.TIMED_OUT: 2.0,
}
_SOUND = 10.0
#: The same for one that is many times slower than its neighbours: a combination without a good kernel.
FAR_TOO_SLOW = 10.0
#: Launches that worked; what was given up for being slow worked too.
_WORKED = frozenset({Kind.NONE, Kind.PRUNED})
#: How likely a property is to be at fault beforehand: one, two and three together.
_BEFOREHAND = (0.05, 0.01, 0.004)
#: How many observations that is worth.
_STRENGTH = 0.5
_ROUNDS = 30


_Property = tuple["NDArray[np.int_]", int]
"""Its value in each row, and how many options it is made of."""


def failed(record: TrialRecord) -> bool:
    """Whether a trial says something of candidates like its own; running out of memory has a model of its own."""
    outcome = record.outcome
    if outcome is None or (outcome.kind is Kind.DEGRADED and (outcome.stage is not None or outcome.inferred)):
        return False  # what did not fit, so that the engine went on without it
    return outcome.kind in _WEIGHTS


def worked(record: TrialRecord) -> bool:
    """Whether a trial shows that its properties are sound."""
    return record.outcome is not None and record.outcome.kind in _WORKED


def weight_of(record: TrialRecord) -> float:
    """How many observations of a failure a trial is; 0 where it worked."""
    return _WEIGHTS.get(record.outcome.kind, 0.0) if record.outcome is not None else 0.0


def chance_to_work(rows: Rows, seen: Rows, weights: Sequence[float]) -> NDArray[np.float64]:
    """The probability, from 0 to 1, that each configuration does not fail for one of its properties.

    Args:
        rows: Configurations.
        seen: Those of the trials that failed or worked.
        weights: How many observations of a failure each trial is; 0 where it worked.
    """
    bad = np.array(weights, dtype=float)
    if not bad.any():
        return np.ones(len(rows))
    has, asked, prior = _features(_properties(seen), _properties(rows))
    times = np.where(bad > 0, bad, _SOUND)
    present = times @ has
    fault = prior
    for _ in range(_ROUNDS):
        fails = 1 - np.prod(np.where(has, 1 - fault, 1.0), axis=1)
        blamed = (bad / np.maximum(fails, fault.min())) @ has * fault
        fault = (prior * _STRENGTH + blamed) / (_STRENGTH + present)
    sound: NDArray[np.float64] = np.exp(asked @ np.log1p(-fault))
    return sound


def _features(
    seen: Sequence[_Property], rows: Sequence[_Property]
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Which trial and which configuration has which value of a property, and how suspect each is beforehand."""
    values = [(place, value) for place, (column, _) in enumerate(seen) for value in np.unique(column)]
    has = np.stack([seen[place][0] == value for place, value in values], axis=1)
    asked = np.stack([(rows[place][0] == value).astype(float) for place, value in values], axis=1)
    prior = np.array([_BEFOREHAND[seen[place][1] - 1] for place, _ in values])
    return has, asked, prior


def _properties(rows: Rows) -> list[_Property]:
    """Properties of each row, alone and together."""
    mode = np.where(rows.tensor, 2, np.where(rows.boundaries > 0, 1, 0))
    cache, reduction = rows.quantised.astype(int), rows.internal.astype(int) * rows.tensor
    drafts, ngram = (rows.depth > 0).astype(int), rows.ngram.astype(int)
    together = [(mode, cache), (mode, reduction), (mode, drafts), (mode, ngram), (cache, drafts)]
    threes = [(mode, cache, reduction), (mode, cache, drafts), (mode, reduction, drafts)]
    return [
        *((column, 1) for column in (mode, cache, reduction, drafts, ngram)),
        *((first * 2 + second, 2) for first, second in together),
        *((first * 4 + second * 2 + third, 3) for first, second, third in threes),
    ]
