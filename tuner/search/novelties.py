"""What has become possible since a study was made: new options and values, and what the engine of then could not do.

A retune tries these first: that is where more than the old best may be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind
from tuner.core.space import Choice
from tuner.core.trial import searched
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.core.outcome import Outcome
    from tuner.core.trial import TrialRecord
    from tuner.search.coordinates import BoundSpace

#: How a launch ends for which the engine may be to blame; one that ran out of memory is not of this kind.
_ENGINES_FAULT = frozenset(
    {
        Kind.UNSUPPORTED,
        Kind.CRASHED,
        Kind.HUNG,
        Kind.DRAFT_UNAVAILABLE,
        Kind.NOT_AS_ASKED,
        Kind.DEGRADED,
    }
)
#: Options whose combination a failure is laid to: the first of these that never worked.
_COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("split-mode",),
    ("cache-type-k", "cache-type-v"),
    ("spec-type",),
    ("split-mode", "cache-type-k", "cache-type-v"),
    ("split-mode", "spec-type"),
    ("cache-type-k", "cache-type-v", "spec-type"),
    ("split-mode", "cache-type-k", "cache-type-v", "spec-type"),
)


@dataclass(frozen=True, slots=True)
class Novelty:
    """Something that could not be before."""

    why: str
    options: Mapping[str, Value]
    """What a candidate has to have."""

    def has(self, candidate: Candidate) -> bool:
        """Whether a candidate is of this kind."""
        return all(candidate.get(name) == value for name, value in self.options.items())


def novelties(
    bound: BoundSpace, new: Mapping[str, Sequence[str]], records: Sequence[TrialRecord]
) -> list[Novelty]:
    """What has become possible, new options first.

    Args:
        bound: The space on the rig, with the engine of now.
        new: Options that the engine has and that of then had not, with their values; no values for a whole option.
        records: The trials of then.
    """
    found = []
    for name, values in new.items():
        parameter = bound.space.parameter(name)
        if not isinstance(parameter, Choice):
            continue
        found += [
            Novelty(f"{name} {choice} is new", {name: choice})
            for choice in parameter.choices
            if (not values and choice != parameter.default) or set(str(choice).split(",")) & set(values)
        ]
    return [*found, *_failed(records)]


def candidate_of(
    novelty: Novelty,
    bound: BoundSpace,
    best: Candidate,
    propose: Callable[[Callable[[Candidate], bool]], Candidate | None],
) -> Candidate | None:
    """The candidate of that kind that is likeliest to be fast; None where the space has none.

    Args:
        novelty: The kind.
        bound: The space on the rig.
        best: What was best.
        propose: Proposes a candidate out of those that are not refused.
    """
    proposed = propose(lambda one: not novelty.has(one))
    if proposed is not None:
        return proposed
    changed = complete(bound, {**best.options, **novelty.options})
    return changed if novelty.has(changed) else None


def _failed(records: Sequence[TrialRecord]) -> list[Novelty]:
    """Combinations with which no launch of then could be used, for a reason that the engine may be to blame for."""
    rows = [one for one in searched(records) if one.candidate is not None and one.outcome is not None]
    worked = [one.candidate for one in rows if one.may_win or _was_slow(one)]
    found: dict[tuple[tuple[str, Value], ...], Novelty] = {}
    for row in rows:
        candidate, outcome = row.candidate, row.outcome
        if candidate is None or outcome is None or not _is_engines_fault(outcome):
            continue
        for names in _COMBINATIONS:
            options = {name: value for name in names if (value := candidate.get(name)) is not None}
            kind = Novelty(f"{_words(options)} ended as {outcome.kind} before", options)
            if not any(one is not None and kind.has(one) for one in worked):
                found.setdefault(tuple(options.items()), kind)
                break
    return list(found.values())


def _is_engines_fault(outcome: Outcome) -> bool:
    """Whether it may be; what was degraded because it did not fit is none of its."""
    lacked_memory = outcome.kind is Kind.DEGRADED and (outcome.stage is not None or outcome.inferred)
    return outcome.kind in _ENGINES_FAULT and not lacked_memory


def _was_slow(record: TrialRecord) -> bool:
    return record.outcome is not None and record.outcome.kind is Kind.PRUNED


def _words(options: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())
