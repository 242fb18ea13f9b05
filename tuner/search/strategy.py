"""What to launch next once references and starting candidates are through.

The speed model proposes; a stock sampler has its turn where the model does not explain what is measured, and now
and then in any case, for options that the model knows nothing of. The same trials and the same seed always give
the same proposal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.objective import Objective
from tuner.core.space import InRam
from tuner.core.trial import best_of
from tuner.search.coordinates import complete
from tuner.search.neighbours import OF_HOST, OF_PROMPTS, neighbour
from tuner.search.queue import propose
from tuner.search.speed.in_ram import RamSites
from tuner.search.speed.proposer import SpeedSearch
from tuner.search.speed.switches import switches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.cards import Bandwidth
    from tuner.core.trial import TrialRecord
    from tuner.search.coordinates import BoundSpace
    from tuner.search.memory_gate import MemoryGate
    from tuner.search.queue import Sampler

#: Trials before the sampler has a turn of its own.
_MODEL_FIRST = 10
#: Every how many proposals is the sampler's: where the model fits, and where it does not.
_TURNS, _TURNS_UNTRUSTED = 8, 2
#: Where prompts or the host count: from which trial on neighbours of the best are tried, and how often.
_NEIGHBOURS_FROM, _NEIGHBOURS_TURNS = 6, 3
#: An improvement that is less likely than this is not waited for.
_LEAST_CHANCE = 0.05
#: A model that is usually further off than this is not trusted.
_TRUSTED_SIGMA = 0.12


@dataclass(frozen=True, slots=True)
class Enough:
    """When a search may call itself done at the earliest.

    Args:
        trials: Measured candidates.
        since_best: Of them, since the best was found.
    """

    trials: int
    since_best: int


FROM_NOTHING = Enough(trials=12, since_best=4)
#: Where other contexts have told how fast things are.
LATER = Enough(trials=5, since_best=4)
#: Where a canary has told that what was found before still holds.
RETUNED = Enough(trials=1, since_best=0)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to launch, and why."""

    candidate: Candidate
    why: str


class Search:
    """The search of one study.

    Args:
        bound: The space on the rig.
        gate: Predicts memory.
        bandwidths: What a decode step is expected to reach of each device, by name; None where nothing is known.
        streams: Requests at the same time.
        before: Trials of the same rig and model at other contexts, or with another engine.
        enough: When it may call itself done; None for what goes with the trials of before.
    """

    def __init__(
        self,
        bound: BoundSpace,
        gate: MemoryGate,
        *,
        bandwidths: Mapping[str, Bandwidth | None],
        streams: int = 1,
        before: Sequence[TrialRecord] = (),
        enough: Enough | None = None,
    ) -> None:
        self._bound = bound
        self._gate = gate
        self._enough = enough or (LATER if before else FROM_NOTHING)
        ram = None
        if isinstance(bound.space.parameter("override-tensor"), InRam):
            ram = RamSites(bound, gate.predictor, gate.room_mib, gate.host_room_mib)
        self._speed = SpeedSearch(
            bound,
            gate.chance_to_fit,
            room_mib=gate.room_mib,
            bandwidths=bandwidths,
            streams=streams,
            before=before,
            ram=ram,
        )

    def propose(
        self,
        records: Sequence[TrialRecord],
        refuses: Callable[[Candidate], bool],
        too_large: Callable[[Candidate], bool],
        sampler: Callable[[], Sampler],
    ) -> Proposal | None:
        """The next candidate; None where there is none left.

        Args:
            records: All trials.
            refuses: Whether a candidate is out of the question: tried already, or against a rule.
            too_large: Whether it cannot fit.
            sampler: A stock sampler over the same trials, made when it is needed.
        """

        def is_out(candidate: Candidate) -> bool:
            return refuses(candidate) or too_large(candidate)

        if self._is_samplers_turn(records):
            drawn = propose(sampler(), self._bound, is_out)
            if drawn is not None:
                switched = self._best_with_switches_of(drawn, records)
                if switched is not None and not is_out(switched):
                    return Proposal(
                        switched, "the best so far with other switches, as the sampler draws them"
                    )
                return Proposal(drawn, "the sampler's proposal")
        plain = self._without_drafts(records, is_out)
        if plain is not None:
            return Proposal(plain, "the best so far without drafts: with all slots busy they may not pay")
        climbed = self._neighbour(records, is_out)
        if climbed is not None:
            return Proposal(climbed, f"the best so far, {_difference(climbed, records)}")
        idea = self._speed.propose(records, refuses, too_large)
        if idea is not None:
            return Proposal(idea.candidate, f"the speed model expects {idea.expected_tok_s:.1f} tok/s")
        drawn = propose(sampler(), self._bound, is_out)
        return None if drawn is None else Proposal(drawn, "the sampler's proposal")

    def _without_drafts(
        self, records: Sequence[TrialRecord], is_out: Callable[[Candidate], bool]
    ) -> Candidate | None:
        """Where all slots are busy: the best without drafts, once; None where such a one was measured."""
        best = _best(records)
        if best is None or best.candidate is None or best.goal.objective is not Objective.THROUGHPUT:
            return None
        if any(one.candidate is not None and not one.candidate.drafts and one.may_win for one in records):
            return None
        candidate = complete(self._bound, {**best.candidate.options, "spec-type": "none"})
        return None if candidate.drafts or is_out(candidate) else candidate

    def _neighbour(
        self, records: Sequence[TrialRecord], is_out: Callable[[Candidate], bool]
    ) -> Candidate | None:
        """Where prompts or the host count: a neighbour of the best, now and then; None on the other turns."""
        best = _best(records)
        if best is None or best.candidate is None:
            return None
        names = (*OF_HOST,) if self._bound.splits.host_parts.in_ram(best.candidate.options) else ()
        if best.goal.objective is Objective.TURN:
            names = (*OF_PROMPTS, *names)
        if not names or len(records) < _NEIGHBOURS_FROM or len(records) % _NEIGHBOURS_TURNS != 0:
            return None
        return neighbour(best.candidate, self._bound, is_out, names)

    def _best_with_switches_of(self, drawn: Candidate, records: Sequence[TrialRecord]) -> Candidate | None:
        """What the model knows from the best trial, and what it does not from the sampler; None on the other turns.

        Where the model does not explain what is measured, the sampler's proposals stay whole.
        """
        best = _best(records)
        if best is None or best.candidate is None:
            return None
        if len(records) % (2 * _TURNS) != 0 or not self._trusts(records):
            return None
        return complete(self._bound, {**best.candidate.options, **switches_of(drawn)})

    def estimates(self, records: Sequence[TrialRecord]) -> dict[int, float]:
        """What each measured candidate makes by all trials together, tok/s by trial.

        Empty where the model does not fit the rig: then what was measured is all that is known.
        """
        return self._speed.estimates(records) if self._trusts(records) else {}

    def device_rates(self, records: Sequence[TrialRecord]) -> dict[str, Bandwidth]:
        """What a decode step reaches of each device, by name, for a study of another file with the same engine.

        Empty where the model does not fit the rig, and before some trials.
        """
        return self._speed.device_rates(records) if self._trusts(records) else {}

    def why_done(
        self, records: Sequence[TrialRecord], refuses: Callable[[Candidate], bool], worthwhile: float
    ) -> str | None:
        """Why going on is not worth its time; None where it is.

        Args:
            records: All trials.
            refuses: Whether a candidate is out of the question.
            worthwhile: The improvement that is worth going on for, as a part of the best; 0 for any.
        """
        measured = [record for record in records if record.candidate is not None and record.may_win]
        if worthwhile <= 0 or len(measured) < self._enough.trials or not self._trusts(records):
            return None
        best = _best(records) or measured[0]
        if sum(record.number > best.number for record in measured) < self._enough.since_best:
            return None
        chance = self._speed.chance_of_gain(records, worthwhile, refuses)
        if chance >= _LEAST_CHANCE:
            return None
        return (
            f"an improvement of {worthwhile:.1%} is unlikely now (a chance of {chance:.1%} for the next best)"
        )

    def _trusts(self, records: Sequence[TrialRecord]) -> bool:
        return self._speed.usual_error(records) <= _TRUSTED_SIGMA

    def _is_samplers_turn(self, records: Sequence[TrialRecord]) -> bool:
        if len(records) < _MODEL_FIRST:
            return False
        return len(records) % (_TURNS if self._trusts(records) else _TURNS_UNTRUSTED) == 0


def _best(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The candidate that is worth most so far; None before the first."""
    return best_of([record for record in records if record.candidate is not None])


def _difference(candidate: Candidate, records: Sequence[TrialRecord]) -> str:
    """What a candidate has otherwise than the best so far."""
    best = _best(records)
    known = {} if best is None or best.candidate is None else best.candidate.options
    return ", ".join(f"{name} {value}" for name, value in candidate.items if known.get(name) != value)
