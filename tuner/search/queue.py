"""What to launch next: references, what has to be done again, starting candidates, then proposals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tuner.core.slots import slot_context
from tuner.core.space import broken_rule, full_cap
from tuner.search.coordinates import BoundSpace, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchSpec
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord
    from tuner.search.dimensions import Coordinate, Dimension

#: So many proposals may be refused (known already, against a rule) before the space counts as used up.
MAX_REFUSALS = 300


class Draw(Protocol):
    """One proposal being drawn."""

    def suggest(self, dimension: Dimension) -> Coordinate:
        """The sampler's value for a dimension."""

    def refuse(self) -> None:
        """The proposal will not be launched; the sampler is to move away from it."""


class Sampler(Protocol):
    """Proposes from what the study knows."""

    def ask(self) -> Draw:
        """Begin a proposal."""


def pending(specs: Iterable[LaunchSpec], records: Sequence[TrialRecord]) -> LaunchSpec | None:
    """The first of some launches that has not been made, or has to be made again."""
    for spec in specs:
        if wanted(spec.key, records):
            return spec
    return None


def again(records: Sequence[TrialRecord]) -> Candidate | None:
    """A candidate whose last trial ended in a way that is tried again."""
    for record in records:
        if record.candidate is not None and wanted(record.key, records):
            return record.candidate
    return None


def wanted(key: str, records: Sequence[TrialRecord]) -> bool:
    """Whether something still has to be launched: it never was, or it ended by no fault of its own.

    Each kind of end has its own count: a device that was lost once says nothing of a card that throttles.
    """
    outcomes = [record.outcome for record in records if record.key == key]
    if not outcomes:
        return True
    last = outcomes[-1]
    if last is None:
        return False
    alike = sum(outcome is not None and outcome.kind is last.kind for outcome in outcomes)
    return alike <= last.policy.retries


def refusal(bound: BoundSpace, candidate: Candidate, records: Sequence[TrialRecord]) -> str | None:
    """Why a proposal is not launched; None where it is."""
    options: Mapping[str, Value] = candidate.options
    rule = broken_rule(bound.space, options)
    if rule is not None:
        return f"breaks the rule {rule}"
    context = options.get("ctx-size")
    if isinstance(context, int) and slot_context(options, context) < bound.least_slot_context:
        return f"its slots hold less than {bound.least_slot_context:,} tokens"
    if any(record.candidate == candidate for record in records):
        return "was tried already"
    if (twin := _twin(bound, candidate, records)) is not None:
        return f"is the same split as trial {twin}"
    launched = [record.candidate.options for record in records if record.candidate is not None]
    cap = full_cap(bound.space, options, launched)
    if cap is not None:
        return f"{cap.launches} launches of its kind are allowed and were made"
    return None


def _twin(bound: BoundSpace, candidate: Candidate, records: Sequence[TrialRecord]) -> int | None:
    """The trial of another ratio that is physically the same split; None where there is none.

    Over two devices equal splits are equal candidates; over more of them only a comparison tells.
    """
    if len(candidate.split) < 3:
        return None
    mode = str(candidate.get("split-mode"))
    for record in records:
        other = record.candidate
        if (
            other is not None
            and other.with_options({"tensor-split": candidate.split}) == candidate
            and bound.splits.same(mode, other.split, candidate.split)
        ):
            return record.number
    return None


def propose(sampler: Sampler, bound: BoundSpace, refuses: Callable[[Candidate], bool]) -> Candidate | None:
    """A new candidate of the sampler's; None where it finds none that is not refused."""
    for _ in range(MAX_REFUSALS):
        proposal = sampler.ask()
        candidate = draw(bound, proposal.suggest)
        if not refuses(candidate):
            return candidate
        proposal.refuse()
    return None
