"""How a trial lies in a storage that several machines write to: one parameter, one attribute, one value.

Each further row costs a round trip and a commit. The parameter is a number that stands for the candidate, so that
equal ones are seen at once; the attribute holds all that is known, first of the launch, then of its end too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optuna.distributions import IntDistribution
from optuna.trial import TrialState as OptunaState
from optuna.trial import create_trial

from tuner.core.launch import LaunchResult, trial_key
from tuner.core.outcome import Kind, Outcome, TrialState
from tuner.core.trial import Purpose
from tuner.study.rows import CANDIDATE, ERRAND, attributes_of, begun_record
from tuner.study.trial_store import Kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.trial import FrozenTrial

    from tuner.core.launch import LaunchSpec
    from tuner.core.objective import Goal
    from tuner.core.trial import Errand, TrialRecord

DOCUMENT, PARAMETER = "trial", "candidate"
_WORKER, _TOKEN, _ROLE, _WITHDRAWN, _LATE = "worker", "token", "role", "withdrawn", "late_for"
_RESULT, _WALL, _LOG, _NEEDS = "result", "wall_s", "log_tail", "needs_mib"
_BEGAN, _ENDED = "began_s", "ended_s"
#: A double holds every whole number up to here.
_KEYS = IntDistribution(0, 2**52)


@dataclass(frozen=True, slots=True)
class Worker:
    """Who launches: one tuner on one rig."""

    id: str
    """Its own, and the same after a restart."""
    host: str

    def to_json(self) -> dict[str, str]:
        """Plain JSON values."""
        return {"id": self.id, "host": self.host}


@dataclass(frozen=True)
class Stored:
    """A trial as it is in the storage; read once, since studies have thousands."""

    trial: FrozenTrial

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """Its attribute; empty for a trial that none of ours wrote."""
        found: Mapping[str, Any] = self.trial.user_attrs.get(DOCUMENT, {})
        return found

    @cached_property
    def number(self) -> int:
        """Of the trial."""
        return self.trial.number

    @cached_property
    def id(self) -> int:
        """The storage's own."""
        return self.trial._trial_id  # noqa: SLF001 - what writes are addressed to

    @cached_property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.trial.state is OptunaState.RUNNING

    @cached_property
    def token(self) -> str | None:
        """What tells one attempt to write from another."""
        return self.document.get(_TOKEN)

    @cached_property
    def worker(self) -> Worker:
        """Who made it."""
        row = self.document.get(_WORKER, {})
        return Worker(row.get("id", ""), row.get("host", ""))

    @cached_property
    def role(self) -> str | None:
        """What it stands for if it is no launch."""
        return self.document.get(_ROLE)

    @cached_property
    def late_for(self) -> int | None:
        """The trial whose result it is, that had been given up; None for any other."""
        return self.document.get(_LATE)

    @property
    def clock(self) -> tuple[float, float | None] | None:
        """When it began and ended by its worker's clock, in seconds since 1970; None where it does not say.

        Optuna's own times are each host's local ones.
        """
        document = self.document
        return (float(document[_BEGAN]), document.get(_ENDED)) if _BEGAN in document else None

    @cached_property
    def purpose(self) -> Purpose:
        """What it was launched for."""
        row = self.document.get(ERRAND)
        return Purpose.SEARCH if row is None else Purpose(row[0])

    @cached_property
    def is_reference(self) -> bool:
        """Whether a reference was launched."""
        return CANDIDATE not in self.document

    @cached_property
    def is_launch(self) -> bool:
        """Whether it is a launch that was really made."""
        document = self.document
        return bool(document) and _ROLE not in document and _WITHDRAWN not in document

    @cached_property
    def result(self) -> LaunchResult | None:
        """What its own worker says that came of it; None where it has not brought it to its end."""
        if self.runs or _RESULT not in self.document:
            return None
        result = LaunchResult.from_json(self.document[_RESULT])
        failed = result.outcome.policy.state is TrialState.FAIL
        return result if failed is (self.trial.state is OptunaState.FAIL) else None  # as who gives it up says

    @property
    def has_result(self) -> bool:
        """Whether its own worker has brought it to its end."""
        return self.result is not None

    @property
    def is_lost(self) -> bool:
        """Whether it was given up because nothing was heard of its worker."""
        return self.is_launch and not self.runs and not self.has_result

    def record(self, goal: Goal) -> TrialRecord:
        """As decisions are made from it."""
        result = self.result
        if result is None and not self.runs:
            said = f"nothing was heard of its worker any more ({self.worker.host})"
            result = LaunchResult(Outcome(Kind.STOPPED, evidence=said))
        return begun_record(
            self.number,
            self.document,
            result,
            wall_s=self.document.get(_WALL, 0.0) if self.has_result else 0.0,
            worker=self.worker.id,
            goal=goal,
        )

    def kept(self) -> Kept:
        """What there is of its folder."""
        return Kept(self.document.get(_LOG, ""), MappingProxyType(dict(self.document.get(_NEEDS, {}))))


def launch_document(
    spec: LaunchSpec,
    worker: Worker,
    token: str,
    *,
    argv: Sequence[str],
    environment: Mapping[str, str],
    errand: Errand,
    now_s: float,
) -> dict[str, Any]:
    """What is known of a launch when it begins; `now_s` are seconds since 1970."""
    known = attributes_of(spec, argv=argv, environment=environment, errand=errand)
    return {**known, _WORKER: worker.to_json(), _TOKEN: token, _BEGAN: now_s}


def ended_document(
    begun: Mapping[str, Any], record: TrialRecord, kept: Kept, *, now_s: float
) -> dict[str, Any]:
    """The same with its end; what was answered stays on the disk of its worker.

    Args:
        begun: What was known when it began.
        record: The trial; it has a result.
        kept: What readers are to see of its folder.
        now_s: Seconds since 1970.
    """
    assert record.result is not None  # noqa: S101 - for the type checker; callers have looked
    return {
        **begun,
        _ENDED: now_s,
        _RESULT: record.result.without_text().to_json(),
        _WALL: record.wall_s,
        _LOG: kept.log_tail,
        _NEEDS: {device: dict(parts) for device, parts in kept.needs_mib.items()},
    }


def late_document(document: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A result that came when its trial had been given up."""
    return {**document, _LATE: number}


def withdrawn_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """A launch that was not made: another worker was first."""
    return {**document, _WITHDRAWN: True}


def role_document(role: str, worker: Worker, token: str) -> dict[str, Any]:
    """Something that one worker does for all."""
    return {_ROLE: role, _WORKER: worker.to_json(), _TOKEN: token}


def template(state: OptunaState, document: Mapping[str, Any], value: float | None = None) -> FrozenTrial:
    """A trial as it is written in one commit."""
    launch = _ROLE not in document
    return create_trial(
        state=state,
        value=value,
        params={PARAMETER: _number_of(document)} if launch else {},
        distributions={PARAMETER: _KEYS} if launch else {},
        user_attrs={DOCUMENT: dict(document)},
    )


def _number_of(document: Mapping[str, Any]) -> int:
    """Equal for launches of the same candidate or reference."""
    record = begun_record(0, document, None)
    key = trial_key(record.candidate, record.reference)
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 12
