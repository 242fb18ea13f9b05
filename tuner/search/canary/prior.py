"""Trials of before as a prior for the search: trusted as far as the canary says.

Where all that was launched has changed alike, or not at all, every rate of before is multiplied by that. Where it
has not, those with what is suspected of it are multiplied by what the changed ones have lost or gained, and those
without any of it by what the others have. A trial that has a part of what is suspected says nothing, and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, fsum, log
from typing import TYPE_CHECKING

from tuner.search.canary.causes import changed_alike, differ, suspects, traits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.trial import TrialRecord
    from tuner.search.canary.causes import Seen


@dataclass(frozen=True, slots=True)
class Trust:
    """How rates of before are to be read now.

    Args:
        suspected: Traits that are behind a change that not all have had; empty where all have changed alike.
        changed: What rates with all of these are multiplied by.
        others: What rates with none of them are multiplied by.
    """

    suspected: frozenset[str]
    changed: float
    others: float

    @classmethod
    def of(cls, best: Seen, others: Sequence[Seen]) -> Trust:
        """What launches have shown.

        Args:
            best: What was best.
            others: What else was launched, with what it made now over what it made then.
        """
        every = [best, *others]
        if not any(differ(one, best) for one in others):
            mean = _mean([one.ratio for one in every])
            return cls(frozenset(), mean, mean)
        alike = [one.ratio for one in every if changed_alike(one, best)]
        unlike = [one.ratio for one in every if not changed_alike(one, best)]
        return cls(suspects(best, others), _mean(alike), _mean(unlike) if unlike else _mean(alike))

    @property
    def is_whole(self) -> bool:
        """Whether all trials of before are believed, and compare among themselves as they did."""
        return not self.suspected

    def factor(self, candidate: Candidate) -> float | None:
        """What its rate of before is multiplied by; None where it says nothing."""
        has = traits(candidate.options) & self.suspected
        if not has:
            return self.others
        return self.changed if has == self.suspected else None


def prior_of(records: Sequence[TrialRecord], trust: Trust) -> tuple[TrialRecord, ...]:
    """The trials that are believed, as if they had been made now."""
    found = []
    for record in records:
        if record.candidate is None or record.result is None:
            continue
        factor = trust.factor(record.candidate)
        if factor is not None:
            found.append(faster(record, factor))
    return tuple(found)


def faster(record: TrialRecord, factor: float) -> TrialRecord:
    """The same trial, had all its requests been answered so many times as fast."""
    if record.result is None:
        return record
    samples = tuple(
        replace(
            one,
            predicted_ms=one.predicted_ms / factor,
            prompt_ms=one.prompt_ms / factor,
            ttft_s=one.ttft_s / factor,
            wall_s=one.wall_s / factor,
            began_s=one.began_s / factor,
        )
        for one in record.result.samples
    )
    return replace(record, result=replace(record.result, samples=samples), estimate_tok_s=None)


def _mean(ratios: Sequence[float]) -> float:
    return exp(fsum(log(one) for one in ratios) / len(ratios))
