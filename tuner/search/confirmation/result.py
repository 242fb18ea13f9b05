"""What a confirmation says in the end: the winner against everything that it was compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.launch import PREVIOUS, trial_key
from tuner.core.options import BASE_OPTIONS
from tuner.core.trial import best_of
from tuner.search.confirmation.state import gone_of, launches_of, scores_of, standing_now
from tuner.search.confirmation.steadiness import Drift, drift, outliers
from tuner.search.confirmation.verdict import SAME_HEADROOM_MIB, choose, compare, runner_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.interval import Interval
    from tuner.search.confirmation.state import Confirmation
    from tuner.search.confirmation.verdict import Score, Standing

#: Options that every candidate has, or that follow from others.
_NOT_PLAINER = frozenset(
    {"device", "tensor-split", "ctx-size", "gpu-layers", "fit", "flash-attn", "parallel"}
)


@dataclass(frozen=True, slots=True)
class Versus:
    """The winner against another."""

    arm: str
    interval: Interval | None
    """None where fewer than two blocks have both."""


@dataclass(frozen=True, slots=True)
class Result:
    """What is known."""

    winner: str
    tied_with: tuple[str, ...]
    """Other leaders that do not differ from it for certain."""
    tie_broken_by: str | None
    """`memory`, `plainness` or `speed`; None where nobody is tied with it."""
    runner_up: Versus | None
    references: tuple[Versus, ...]
    blocks: int
    launches: int
    """All that were made, those that had to be made again included."""
    drift: Drift | None
    outliers: tuple[int, ...]
    """Numbers of trials that stand out."""
    repeated: tuple[int, ...]
    """Numbers of trials that had to be made again: a card throttled, somebody else used it, or it failed."""
    disturbed: tuple[int, ...]
    """Numbers of trials that count although a card throttled or somebody else used it, as it did each time."""
    time_over: bool


def result_of(confirmation: Confirmation, records: Sequence[TrialRecord]) -> Result | None:
    """Work it out from the trials; None where nobody is left, or nothing has been looked at yet."""
    now = standing_now(confirmation, records)
    if now is None or not now[0].active_leaders:
        return None
    found, final = now
    plan = confirmation.plan
    scores = scores_of(confirmation, records)
    launched = launches_of(confirmation, records)
    by_key = {record.key: record for record in launched if record.score is not None}
    headroom = {arm: headroom_mib([r for r in launched if r.key == arm]) for arm in found.active_leaders}
    plain = {
        arm: plainness(record.candidate) if (record := by_key.get(arm)) is not None and record.candidate else 0
        for arm in found.active_leaders
    }  # fmt: skip
    winner = choose(found.active_leaders, _shared(scores, found), headroom, plain)
    gone = gone_of(confirmation, records)
    counted = [score for score in scores if score.block < found.look]
    second = runner_up(plan, counted, winner, out=gone)

    def versus(other: str) -> Versus:
        return Versus(other, compare(winner, other, scores, plan, found.look, final=final))

    references = [reference for reference in plan.references if reference not in confirmation.out]
    may_not_win = {record.key for record in launched if record.score is not None and not record.may_win}
    may_not_win.add(trial_key(None, PREVIOUS))  # it ran on what there was before
    faster = {
        reference: interval.ratio
        for reference in references
        if (interval := versus(reference).interval) is not None
        and interval.high < 1
        and reference not in gone | may_not_win
    }
    if faster:  # nothing was found that is faster
        winner, second = min(faster, key=faster.__getitem__), winner
    measured = {score.order for score in scores}
    tied = tuple(arm for arm in found.active_leaders if arm != winner) if winner in plan.leaders else ()
    return Result(
        winner=winner,
        tied_with=tied,
        tie_broken_by=_broken_by(winner, tied, headroom, plain) if tied else None,
        runner_up=None if second is None else versus(second),
        references=tuple(versus(reference) for reference in references if reference != winner),
        blocks=found.look,
        launches=len(launched),
        drift=drift(scores),
        outliers=outliers(scores),
        repeated=tuple(
            row.number for row in launched if row.result is not None and row.number not in measured
        ),
        disturbed=tuple(
            row.number
            for row in launched
            if row.score is not None and row.outcome is not None and row.may_win and row.outcome.evidence
        ),
        time_over=final,
    )


def winner_of(confirmation: Confirmation | None, records: Sequence[TrialRecord]) -> str | None:
    """The key of the best configuration: the confirmed one, else what the search found; None without any."""
    result = None if confirmation is None else result_of(confirmation, records)
    if result is not None:
        return result.winner
    out = {} if confirmation is None else confirmation.out
    best = best_of([record for record in records if record.key not in out])
    return None if best is None else best.key


def headroom_mib(records: Sequence[TrialRecord]) -> int | None:
    """The least that a configuration left free on one of its devices, in MiB; None where no driver says.

    Args:
        records: Its launches.
    """
    free = [
        mib
        for record in records
        if record.result is not None and record.score is not None
        for device, mib in record.result.free_mib.items()
        if record.candidate is None or device in (record.candidate.devices or (device,))
    ]
    return min(free, default=None)


def plainness(candidate: Candidate) -> int:
    """How many options differ from what every command has anyway."""
    return sum(
        name not in _NOT_PLAINER and value != BASE_OPTIONS.get(name) and value != ""
        for name, value in candidate.items
    )


def _shared(scores: Sequence[Score], found: Standing) -> list[Score]:
    """Those of blocks that all who may win have: alone, a launch on cooler cards says nothing."""
    blocks = set(range(found.look))
    for arm in found.active_leaders:
        blocks &= {score.block for score in scores if score.arm == arm}
    return [score for score in scores if score.block in blocks]


def _broken_by(
    winner: str, tied: Sequence[str], headroom: Mapping[str, int | None], plain: Mapping[str, int]
) -> str:
    """What left none but the winner; see `choose`."""
    most = max((mib for mib in headroom.values() if mib is not None), default=0)
    roomy = [arm for arm in tied if (mib := headroom[arm]) is None or most - mib < SAME_HEADROOM_MIB]
    if not roomy:
        return "memory"
    return "speed" if any(plain[arm] == plain[winner] for arm in roomy) else "plainness"
