"""Who takes part in a study of several machines, and what each of them has done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.objective import Goal
    from tuner.study.documents import Stored, Worker


@dataclass(frozen=True, slots=True)
class Part:
    """One worker's part of a study."""

    worker: Worker
    trials: int
    """Launches that it began, withdrawn ones aside."""
    measured: int
    """Of these, what was measured; results that came late too."""
    running: int | None = None
    """The trial that it is in; None where it is in none."""
    proves: bool = False
    """Whether it is the one that proves the winner."""
    heard_s: float | None = None
    """When it last wrote of a trial, in seconds since 1970; None where it never did."""
    quiet_s: float | None = None
    """For how long it has shown no sign of life of what it does; None where it does nothing, or nobody can say."""
    lease_s: float = 0.0
    """For how long it may show none."""
    given_up: tuple[int, ...] = ()
    """Its trials of which nothing was heard any more."""
    late: int = 0
    """How many of their results came all the same."""
    apart: str | None = None
    """Why its rig is not like the others', so that its trials are not mixed in; None where it is."""

    @property
    def works(self) -> bool:
        """Whether it is in the middle of something, as far as is known."""
        is_silent = self.quiet_s is not None and self.quiet_s > self.lease_s
        return (self.running is not None or self.proves) and not is_silent


def parts_of(
    stored: Sequence[Stored],
    goal: Goal,
    *,
    apart: Mapping[str, str],
    quiet_s: Mapping[int, float | None],
    lease_s: float,
) -> tuple[Part, ...]:
    """Every worker's part, who began first first.

    Args:
        stored: All trials, in order.
        goal: What the study is made for.
        apart: Whose rigs are set apart, and why, by worker's id.
        quiet_s: For how long no sign of life was shown for what runs, by the storage's id of it.
        lease_s: For how long none may be shown.
    """
    theirs: dict[str, list[Stored]] = {}
    for one in stored:
        if one.document:
            theirs.setdefault(one.worker.id, []).append(one)
    return tuple(
        _part(own, goal, apart.get(name), quiet_s, lease_s)
        for name, own in theirs.items()
        if any(one.is_launch for one in own)
    )


def _part(
    own: Sequence[Stored], goal: Goal, apart: str | None, quiet_s: Mapping[int, float | None], lease_s: float
) -> Part:
    launches = [one for one in own if one.is_launch]
    running = [one for one in own if one.runs]
    silences = [quiet for one in running if (quiet := quiet_s.get(one.id)) is not None]
    outcomes = [one.record(goal).outcome for one in launches]
    return Part(
        own[-1].worker,
        trials=sum(one.late_for is None for one in launches),
        measured=sum(outcome is not None and outcome.policy.measured for outcome in outcomes),
        running=next((one.number for one in running if one.is_launch), None),
        proves=any(one.role is not None for one in running),
        heard_s=max((at for one in launches for at in _wrote_at(one)), default=None),
        quiet_s=min(silences, default=None),
        lease_s=lease_s,
        given_up=tuple(one.number for one in launches if one.is_lost),
        late=sum(one.late_for is not None for one in launches),
        apart=apart,
    )


def _wrote_at(one: Stored) -> list[float]:
    """When its worker itself wrote of it: what is given up is ended by another."""
    began_s, ended_s = one.clock or (None, None)
    return [time_s for time_s in (began_s, ended_s if one.has_result else None) if time_s is not None]
