"""Who is launched in a canary, in how many blocks, and who is left out after the first.

What was best takes part in every block, as it is now and, where that is still possible, as it was. The reference of
the claim does as far as launches allow. What stands beside them (something that has become possible, the runner-up)
is looked at in the first block, and goes on where it may be the new best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.search.confirmation.leaders import is_close
from tuner.search.confirmation.state import complete_blocks, launches_of
from tuner.search.confirmation.verdict import LEAST_BLOCKS, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.state import Confirmation

#: Launches that a new winner's soak takes.
SOAK_LAUNCHES = 1
#: What is kept for telling which option has become slower, once the first block says that something has.
CAUSE_LAUNCHES = 2
#: The best has become slower, by a launch of each, where it makes less than this part of what it made.
_SLOWER = 0.92
#: More are never looked at beside the best.
MOST_BESIDE = 3


@dataclass(frozen=True, slots=True)
class Arms:
    """Keys of what a canary launches."""

    best: str
    """What was best, with what there is now."""
    previous: str | None
    """The same as it was; None where that is not possible any more."""
    references: tuple[str, ...]
    """What the best was compared with, the reference of its claim first."""
    beside: tuple[str, ...] = ()
    """What may be better, the most promising first."""

    @property
    def compared(self) -> tuple[str, ...]:
        """What takes part in every block, as far as launches allow."""
        previous = () if self.previous is None else (self.previous,)
        return (self.best, *previous, *(one for one in self.references if one != self.best))


def least_launches(arms: Arms) -> int:
    """Fewer launches show no spread of what has to be compared."""
    return LEAST_BLOCKS * len(arms.compared)


def plan_of(arms: Arms, *, launches: int, blocks: int, worthwhile: float) -> Plan:
    """The plan of a canary within so many launches, a soak included.

    Args:
        arms: Who there is.
        launches: All that may be made.
        blocks: Launches a side.
        worthwhile: A difference that is worth while, as a part.

    Raises:
        ValueError: There are fewer launches than `least_launches`.
    """
    if launches < least_launches(arms):
        raise ValueError(f"{launches} launches do not show any spread of {len(arms.compared)} configurations")
    fixed = arms.compared
    many = min(blocks, max(launches // len(fixed), LEAST_BLOCKS))
    # each that is looked at takes one; one of them may go on, if need be instead of a reference's later blocks
    spare = launches - SOAK_LAUNCHES - many * len(fixed)
    beside = max(min(spare + (many - 2) - (many - 1), len(arms.beside), MOST_BESIDE), 0)
    return Plan(
        leaders=(arms.best, *arms.beside[:beside]),
        references=tuple(one for one in fixed if one != arms.best),
        blocks=many,
        worthwhile=worthwhile,
    )


def after_first_block(
    confirmation: Confirmation, arms: Arms, records: Sequence[TrialRecord], *, launches: int
) -> Confirmation:
    """The canary without those that need not, or cannot, go on after the first block.

    It follows from the first block alone, so that a canary that was interrupted goes on as it would have.

    Args:
        confirmation: Where the canary stands.
        arms: Who there is.
        records: All trials.
        launches: All that may be made.
    """
    if complete_blocks(confirmation, records) < 1:
        return confirmation
    plan = confirmation.plan
    first = [one for one in launches_of(confirmation, records) if one.errand.block == 0]
    by_key = {one.key: one for one in first if one.score is not None}
    left = launches - SOAK_LAUNCHES - len(first)
    each = plan.blocks - 1
    out: dict[str, str] = {}
    closed: dict[str, int] = {}
    left -= each * sum(one in plan.arms for one in (arms.best, arms.previous))
    beside = [one for one in plan.leaders if one != arms.best and one not in confirmation.out]
    ranked = sorted(
        (by_key[one] for one in beside if one in by_key and by_key[one].may_win),
        key=lambda one: -(one.score or 0.0),
    )
    own = by_key.get(arms.best)
    if _is_slower(own, by_key.get(arms.previous or "")):
        left -= CAUSE_LAUNCHES
    for place, record in enumerate(ranked):
        if own is not None and own.may_win and not is_close(record, own):
            part = (record.score or 0.0) / (own.score or 1.0)
            out[record.key] = f"it makes {part:.0%} of the best of before in the first block"
        elif place > 0 and not is_close(record, ranked[0]):
            part = (record.score or 0.0) / (ranked[0].score or 1.0)
            out[record.key] = f"it makes {part:.0%} of another in the first block"
        elif left < each:
            out[record.key] = "too few launches are left to compare it"
        else:
            left -= each
    for reference in plan.references:
        if reference == arms.previous or reference in confirmation.out:
            continue
        blocks = min(each, max(left, 0))
        left -= blocks
        if blocks < each:
            closed[reference] = 1 + blocks
    return replace(
        confirmation,
        out=MappingProxyType({**out, **confirmation.out}),
        closed=MappingProxyType(closed),
    )


def _is_slower(now: TrialRecord | None, then: TrialRecord | None) -> bool:
    """Whether what was best has become slower, as far as a launch of each tells."""
    if now is None or then is None or now.score is None or then.score is None:
        return False
    return now.score < _SLOWER * then.score and not is_close(now, then)
