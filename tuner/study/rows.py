"""How a trial lies in a study's own database: a parameter a dimension, an attribute a fact."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState as OptunaState

from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult
from tuner.core.objective import GENERATION
from tuner.core.outcome import TrialState
from tuner.core.trial import SEARCHING, Errand, Purpose, TrialRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.trial import FrozenTrial

    from tuner.core.launch import LaunchSpec
    from tuner.core.objective import Goal

CANDIDATE, RESULT, WALL, ERRAND = "candidate", "result", "wall_s", "errand"
_REFERENCE, _ARGV, _ENVIRONMENT = "reference", "argv", "environment"
STATES = {
    TrialState.COMPLETE: OptunaState.COMPLETE,
    TrialState.PRUNED: OptunaState.PRUNED,
    TrialState.FAIL: OptunaState.FAIL,
}


def attributes_of(
    spec: LaunchSpec, *, argv: Sequence[str], environment: Mapping[str, str], errand: Errand
) -> dict[str, Any]:
    """What is known of a trial when it begins."""
    attributes: dict[str, Any] = {
        _REFERENCE: spec.reference,
        _ARGV: list(argv),
        _ENVIRONMENT: dict(environment),
    }
    if spec.candidate is not None:
        attributes[CANDIDATE] = spec.candidate.to_json()
    if errand != SEARCHING:
        attributes[ERRAND] = [errand.purpose.value, errand.round, errand.block]
    return attributes


def record_of(trial: FrozenTrial) -> TrialRecord:
    """A trial as decisions are made from it; without a result it is still running, or its tuner died."""
    attributes = trial.user_attrs
    result = attributes.get(RESULT)
    ended = trial.state.is_finished() and result is not None
    return begun_record(
        trial.number,
        attributes,
        LaunchResult.from_json(result) if ended and result is not None else None,
        wall_s=attributes.get(WALL, 0.0),
    )


def begun_record(
    number: int,
    attributes: Mapping[str, Any],
    result: LaunchResult | None,
    *,
    wall_s: float = 0.0,
    worker: str | None = None,
    goal: Goal | None = None,
) -> TrialRecord:
    """A trial out of what `attributes_of` made, and what came of it."""
    candidate = attributes.get(CANDIDATE)
    row = attributes.get(ERRAND)
    return TrialRecord(
        number=number,
        candidate=None if candidate is None else Candidate.from_json(candidate),
        reference=attributes.get(_REFERENCE),
        argv=tuple(attributes.get(_ARGV, ())),
        environment=MappingProxyType(dict(attributes.get(_ENVIRONMENT, {}))),
        result=result,
        wall_s=wall_s,
        errand=SEARCHING if row is None else Errand(Purpose(row[0]), int(row[1]), int(row[2])),
        goal=goal or GENERATION,
        worker=worker,
    )
