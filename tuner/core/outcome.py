"""How a trial ended: the one table of outcomes that the study, best.json and every report use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(StrEnum):
    """The kinds of outcome. `none` is a trial that was measured and of which nothing is to be said."""

    NONE = "none"
    DEGRADED = "degraded"
    OUT_OF_MEMORY = "out-of-memory"
    UNSUPPORTED = "unsupported"
    DRAFT_UNAVAILABLE = "draft-unavailable"
    NOT_AS_ASKED = "not-as-asked"
    REJECTED = "rejected"
    PRUNED = "pruned"
    CRASHED = "crashed"
    HUNG = "hung"
    TIMED_OUT = "timed-out"
    DEVICE_ERROR = "device-error"
    RPC_LOST = "rpc-lost"
    PORT_IN_USE = "port-in-use"
    STOPPED = "stopped"
    DISTURBED = "disturbed"
    BAD_FLAG = "bad-flag"
    BAD_MODEL = "bad-model"
    ENGINE_BROKEN = "engine-broken"


class Phase(StrEnum):
    """What the server was doing."""

    LOAD = "load"
    WARMUP = "warmup"
    BENCHMARK = "benchmark"
    SHUTDOWN = "shutdown"


class Stage(StrEnum):
    """Which allocation failed."""

    WEIGHTS = "weights"
    KV = "kv"
    RECURRENT = "recurrent"
    COMPUTE = "compute"
    DRAFT = "draft"
    OUTPUT = "output"
    RUNTIME = "runtime"


class TrialState(StrEnum):
    """Optuna's names for how a trial ends."""

    COMPLETE = "COMPLETE"
    PRUNED = "PRUNED"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Policy:
    """What follows from a kind of outcome."""

    state: TrialState
    """What the study is told. A sampler never sees FAIL and would ask again; PRUNED it learns from."""
    measured: bool
    """Whether the samples are this candidate's speed."""
    may_win: bool
    """Whether such a trial can be the best configuration."""
    retries: int
    """How often the same candidate is put back in the queue."""
    ends_run: bool = False
    """Whether going on makes no sense."""


_BAD_CANDIDATE = Policy(TrialState.PRUNED, measured=False, may_win=False, retries=0)
_MAYBE_BAD_LUCK = Policy(TrialState.PRUNED, measured=False, may_win=False, retries=1)
_NOT_ITS_FAULT = Policy(TrialState.FAIL, measured=False, may_win=False, retries=2)
_NO_USE = Policy(TrialState.FAIL, measured=False, may_win=False, retries=0, ends_run=True)

POLICIES: Mapping[Kind, Policy] = MappingProxyType(
    {
        Kind.NONE: Policy(TrialState.COMPLETE, measured=True, may_win=True, retries=0),
        Kind.DEGRADED: Policy(TrialState.COMPLETE, measured=True, may_win=False, retries=0),
        Kind.OUT_OF_MEMORY: _BAD_CANDIDATE,
        Kind.UNSUPPORTED: _BAD_CANDIDATE,
        Kind.DRAFT_UNAVAILABLE: _BAD_CANDIDATE,
        Kind.NOT_AS_ASKED: _BAD_CANDIDATE,
        Kind.REJECTED: _BAD_CANDIDATE,
        Kind.PRUNED: _BAD_CANDIDATE,
        Kind.CRASHED: _MAYBE_BAD_LUCK,
        Kind.HUNG: _MAYBE_BAD_LUCK,
        Kind.TIMED_OUT: _MAYBE_BAD_LUCK,
        Kind.DEVICE_ERROR: _NOT_ITS_FAULT,
        Kind.RPC_LOST: _NOT_ITS_FAULT,
        Kind.PORT_IN_USE: _NOT_ITS_FAULT,
        Kind.STOPPED: _NOT_ITS_FAULT,
        Kind.DISTURBED: _NOT_ITS_FAULT,
        Kind.BAD_FLAG: _NO_USE,
        Kind.BAD_MODEL: _NO_USE,
        Kind.ENGINE_BROKEN: _NO_USE,
    }
)

#: Failures that may be the rig's: so many in a row end the run, since it needs its owner.
RIG_FAILURES = frozenset({Kind.DEVICE_ERROR, Kind.HUNG})
MAX_RIG_FAILURES_IN_A_ROW = 3

#: What is said of a card that will not come back before a restart.
LOST_DEVICE = ("fallen off the bus", "GPU is lost", "Unable to determine the device handle")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended, and what says so."""

    kind: Kind = Kind.NONE
    phase: Phase | None = None
    stage: Stage | None = None
    device: str | None = None
    """The engine's name of the device."""
    requested_mib: float | None = None
    """What the failed allocation asked for."""
    evidence: str = ""
    """The line that decided, or the observation."""
    inferred: bool = False
    """True where no line says so and it follows from other signs."""

    @property
    def policy(self) -> Policy:
        """What follows from it."""
        return POLICIES[self.kind]

    def sentence(self) -> str:
        """One line for people."""
        if self.kind is Kind.NONE:
            return "measured"
        parts = [self.kind.value + (" (inferred)" if self.inferred else "")]
        if self.stage is not None:
            parts.append(f"at {self.stage}")
        elif self.phase is not None:
            parts.append(f"in {self.phase}")
        if self.device is not None:
            parts.append(f"on {self.device}")
        if self.requested_mib is not None:
            parts.append(f"({self.requested_mib:,.0f} MiB asked for)")
        return " ".join(parts)


MEASURED = Outcome()
