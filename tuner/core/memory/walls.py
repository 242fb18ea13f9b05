"""What ran out of memory runs out again, and so does whatever asks for more in the same way.

However sure a prediction is: a device that was too small for a launch is too small for one of the same kind that asks
as much of it or more up to the same step. This needs no belief about what nobody names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.memory.need import DeviceNeed
    from tuner.core.memory.predict import Predictor
    from tuner.core.trial import TrialRecord


@dataclass(frozen=True, slots=True)
class Wall:
    """A launch that ran out of memory."""

    device: str
    situation: str
    """Of that device: `Situation.key`."""
    stage: Stage
    asked_mib: float
    """What the engine's lines name of that device, up to that step."""


def walls_of(records: Sequence[TrialRecord], predictor: Predictor) -> tuple[Wall, ...]:
    """The walls that trials have hit.

    Args:
        records: Trials with their results.
        predictor: Knows what the engine's buffers take; what it has learned does not matter.
    """
    found = []
    for record in records:
        outcome = record.outcome
        if record.candidate is None or outcome is None or outcome.kind is not Kind.OUT_OF_MEMORY:
            continue
        query = predictor.query(record.candidate.options)
        need = predictor.predict_query(query).devices.get(outcome.device or "")
        if need is None or outcome.device is None:
            continue
        stage = outcome.stage or Stage.RUNTIME
        situation = predictor.situation(query, outcome.device).key
        found.append(Wall(outcome.device, situation, stage, asked_mib(need, stage)))
    return tuple(found)


def first_wall(walls: Sequence[Wall], candidate: Candidate, predictor: Predictor) -> Wall | None:
    """A wall that a candidate would hit for certain; None where it would hit none that is known."""
    if not walls:
        return None
    query = predictor.query(candidate.options)
    needs = predictor.predict_query(query).devices
    for wall in walls:
        need = needs.get(wall.device)
        if need is None or predictor.situation(query, wall.device).key != wall.situation:
            continue
        if asked_mib(need, wall.stage) >= wall.asked_mib:
            return wall
    return None


def asked_mib(need: DeviceNeed, stage: Stage) -> float:
    """What the engine's lines name up to a step; all of them for what comes after."""
    asked = 0.0
    for step, size in need.stages:
        if step is Stage.RUNTIME:
            break
        asked += size
        if step is stage:
            break
    return asked
