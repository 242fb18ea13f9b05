"""Where a confirmation stands, as it is kept with the study; the scores themselves are its trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.core.trial import Purpose, disqualified
from tuner.search.confirmation.looks import looks
from tuner.search.confirmation.verdict import LEAST_BLOCKS, Plan, Score, Standing, order_of, standing
from tuner.search.queue import wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord


_COMPARED = frozenset({Purpose.CONFIRM, Purpose.CANARY})


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What was settled when it began, and what has happened that no trial says."""

    round: int
    """From 1 on; a study that was searched further is confirmed again."""
    plan: Plan
    budget: tuple[float | None, int | None]
    """Seconds and launches that the search had; with more of them it goes on."""
    out: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Arms that failed for good, and why."""
    over_at: int | None = None
    """Blocks that were complete when its time was over; None where it was not."""
    ended: bool = False
    closed: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Arms that take part in so many blocks only; what they measured there counts."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return {
            "round": self.round,
            "leaders": list(self.plan.leaders),
            "references": list(self.plan.references),
            "blocks": self.plan.blocks,
            "worthwhile": self.plan.worthwhile,
            "every_block": self.plan.every_block,
            "budget": list(self.budget),
            "out": dict(self.out),
            "over_at": self.over_at,
            "ended": self.ended,
            "closed": dict(self.closed),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Confirmation:
        """Read what `to_json` made.

        Raises:
            KeyError: A field is missing.
        """
        seconds, launches = document["budget"]
        return cls(
            round=document["round"],
            plan=Plan(
                tuple(document["leaders"]),
                tuple(document["references"]),
                document["blocks"],
                document["worthwhile"],
                every_block=document.get("every_block", False),  # older studies have none
            ),
            budget=(seconds, launches),
            out=MappingProxyType(dict(document["out"])),
            over_at=document["over_at"],
            ended=document["ended"],
            closed=MappingProxyType(dict(document.get("closed", {}))),  # older studies have none
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A launch that is to be made."""

    arm: str
    block: int


@dataclass(frozen=True, slots=True)
class Failed:
    """An arm that cannot be launched as it should, and why."""

    arm: str
    why: str


def launches_of(confirmation: Confirmation, records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The trials of a confirmation, in order."""
    return [
        record
        for record in records
        if record.errand.purpose in _COMPARED and record.errand.round == confirmation.round
    ]


def scores_of(confirmation: Confirmation, records: Sequence[TrialRecord]) -> list[Score]:
    """What its launches measured; their order is the trials' number."""
    return [
        Score(record.key, record.errand.block, record.number, record.score)
        for record in launches_of(confirmation, records)
        if record.score is not None
    ]


def gone_of(confirmation: Confirmation, records: Sequence[TrialRecord]) -> frozenset[str]:
    """Arms that cannot win any more: they failed, or a soak or an endurance did not become them."""
    return frozenset(confirmation.out) | frozenset(disqualified(records))


def next_step(confirmation: Confirmation, records: Sequence[TrialRecord]) -> Wanted | Failed | Standing:
    """What to do next: a launch, an arm that has to be given up, or nothing more since all is known."""
    return _walked(confirmation, records)[0]


def standing_now(confirmation: Confirmation, records: Sequence[TrialRecord]) -> tuple[Standing, bool] | None:
    """What is known by the last look that was taken, and whether time ended it there.

    None before the first, and where time ended it after a single block: there is no interval.
    """
    scores = scores_of(confirmation, records)
    plan = confirmation.plan
    gone = gone_of(confirmation, records)
    if confirmation.over_at is not None:
        if confirmation.over_at < LEAST_BLOCKS:
            return None
        return standing(plan, scores, confirmation.over_at, final=True, out=gone), True
    taken = [look for look in looks(plan.blocks) if look <= complete_blocks(confirmation, records)]
    return (standing(plan, scores, taken[-1], out=gone), False) if taken else None


def complete_blocks(confirmation: Confirmation, records: Sequence[TrialRecord]) -> int:
    """Blocks in which all was launched that had to be."""
    return _walked(confirmation, records)[1]


def _walked(
    confirmation: Confirmation, records: Sequence[TrialRecord]
) -> tuple[Wanted | Failed | Standing, int]:
    """What to do next, and how many blocks are complete before it."""
    plan = confirmation.plan
    if all(leader in confirmation.out for leader in plan.leaders):
        return Standing(look=0, active_leaders=(), done=True), 0  # no use in launching references alone
    rows = launches_of(confirmation, records)
    scores = scores_of(confirmation, records)
    still_open: tuple[str, ...] = plan.arms
    previous = 0
    for look in looks(plan.blocks):
        for block in range(previous, look):
            for arm in order_of(still_open, block):
                if arm in confirmation.out or block >= confirmation.closed.get(arm, plan.blocks):
                    continue
                step = _in_block(arm, block, plan, rows)
                if step is not None:
                    return step, block
        found = standing(plan, scores, look, out=confirmation.out)
        if found.done:
            return found, look
        still_open, previous = found.still_open, look
    raise AssertionError("the last look is always done")


def _in_block(arm: str, block: int, plan: Plan, rows: Sequence[TrialRecord]) -> Wanted | Failed | None:
    """What an arm still needs in a block; None where it has been measured."""
    tries = [row for row in rows if row.key == arm and row.errand.block == block]
    if wanted(arm, tries):
        return Wanted(arm, block)
    last = tries[-1]
    good = last.may_win if arm in plan.leaders else last.score is not None
    if good:
        return None
    outcome = last.outcome
    if outcome is None:
        return Failed(arm, "it was cut off")
    if outcome.policy.measured and last.score is None:
        return Failed(arm, "it generated nothing")
    return Failed(arm, f"{outcome.sentence()}: {outcome.evidence}".rstrip(": "))
