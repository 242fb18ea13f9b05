"""What a server can do to a run, and what the run has to call it: the table that the launches are held against."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.deadlines import LOAD_S, SLACK_S, STALL_S, TERM_S, TOKEN_S
from tuner.core.outcome import Kind, Stage

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

#: How often a candidate is tried whose every launch ends so.
TRIES = {
    Kind.CRASHED: 2,
    Kind.HUNG: 2,
    Kind.TIMED_OUT: 2,
    Kind.DEVICE_ERROR: 3,
    Kind.RPC_LOST: 3,
    Kind.PORT_IN_USE: 3,
    Kind.STOPPED: 3,
}
#: Kinds that end a run if they come three times in a row, one like the other.
STRAINS = frozenset({Kind.HUNG, Kind.DEVICE_ERROR})


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to fail, or to be odd and yet to be measured."""

    name: str
    do: Mapping[str, object]
    """The fake's rule."""
    kind: Kind
    stage: Stage | None = None
    times: int | None = None
    """It happens to so many launches of the candidate, then all is well; None for always."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What the candidate needs for it to happen."""
    deadline_s: float | None = None
    """What ends a launch that would never end."""

    @property
    def ends(self) -> tuple[Kind, ...]:
        """How the launches of its candidate have to end, in order."""
        if self.times is not None:
            return (self.kind,) * self.times + (Kind.NONE,)
        return (self.kind,) * TRIES.get(self.kind, 1)

    @property
    def strains(self) -> bool:
        """Whether three of its kind end a run."""
        return self.kind in STRAINS

    @property
    def bound_s(self) -> float | None:
        """What one such launch may cost at most."""
        return None if self.deadline_s is None else self.deadline_s + 2 * TERM_S + SLACK_S


def all_faults(dice: random.Random) -> list[Fault]:
    """Each fault once; where it strikes, and how stubborn it is, is left to chance."""
    return [*_hangs(dice), *_signals(dice), *_memory(dice), *_answers(), *_others(dice)]


def _hangs(dice: random.Random) -> list[Fault]:
    return [
        Fault(
            f"hang: {hang}" + (", ignores SIGTERM" if stubborn else ""),
            {"hang": hang, "ignore_sigterm": stubborn},
            kind,
            deadline_s=deadline_s,
        )
        for hang, kind, deadline_s in (
            ("load", Kind.HUNG, STALL_S),
            ("load-talking", Kind.TIMED_OUT, LOAD_S),
            ("first-token", Kind.HUNG, TOKEN_S),
            ("mid-stream", Kind.HUNG, TOKEN_S),
            ("after-idle", Kind.HUNG, TOKEN_S),
        )
        for stubborn in [dice.random() < 0.5]
    ] + [
        Fault(
            "frozen by SIGSTOP",
            {"signal": signal.SIGSTOP, "die_in": "request:1"},
            Kind.HUNG,
            deadline_s=TOKEN_S,
        )
    ]


#: SIGILL is left out: it ends the run, as `endings` shows.
_KILLERS = (
    "HUP INT QUIT TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT XCPU XFSZ VTALRM PROF IO PWR SYS"
).split()
#: Somebody who ends a server by hand or shuts the machine down sends these.
_ASKS_TO_END = ("INT", "TERM")


def _signals(dice: random.Random) -> list[Fault]:
    """Death by each signal that kills, sometimes of one launch only."""
    faults = []
    for name in _KILLERS:
        phase = dice.choice(("load", "warmup", "request:1", "request:2"))
        kind = Kind.STOPPED if name in _ASKS_TO_END else Kind.CRASHED
        # a server that catches the signal ends in good order: only while it loads does it die of it
        phase = "load" if kind is Kind.STOPPED else phase
        faults.append(
            Fault(
                f"SIG{name} in {phase}",
                {
                    "signal": getattr(signal, f"SIG{name}"),
                    "die_in": phase,
                    "log": ["ggml.c:1: GGML_ASSERT(n_tokens > 0) failed"] if name == "ABRT" else [],
                },
                kind,
                times=dice.choice((1, None)) if kind is Kind.CRASHED else 1,
            )
        )
    return faults


def _memory(dice: random.Random) -> list[Fault]:
    """Memory that runs out at each stage; how the engine says so depends on the split mode."""

    def oom(stage: str, mode: str, **options: str) -> tuple[str, dict[str, object], dict[str, str]]:
        device = dice.randint(0, 1)
        do: dict[str, object] = {"oom": {"stage": stage, "device": device, "mib": dice.randint(64, 4096)}}
        return f"out of memory: {stage}, {mode}", do, {"split-mode": mode, **options}

    found = [
        Fault(name, do, Kind.OUT_OF_MEMORY, stage=Stage(stage), options=options)
        for stage in ("weights", "kv", "compute", "runtime")
        for name, do, options in [oom(stage, dice.choice(("layer", "tensor")))]
    ]
    name, do, options = oom("draft", "layer", **{"spec-type": "draft-mtp"})
    found.append(Fault(name, do, Kind.OUT_OF_MEMORY, stage=Stage.DRAFT, options=options))
    name, do, options = oom("compute-soft", "layer")
    found.append(Fault(name, do, Kind.DEGRADED, options=options))
    # NCCL says nothing of memory: that it is out of it is inferred
    name, do, options = oom("nccl", "tensor")
    found.append(Fault(name, do, Kind.OUT_OF_MEMORY, stage=Stage.RUNTIME, options=options))
    return found


def _answers() -> list[Fault]:
    return [
        Fault("garbage in a chat", {"garbage": True}, Kind.NOT_AS_ASKED),
        Fault("garbage in /props", {"garbage": ["/props"]}, Kind.NOT_AS_ASKED),
        Fault("garbage in /slots", {"garbage": ["/slots"]}, Kind.NOT_AS_ASKED),
        Fault("half-closed answer", {"half_close": True}, Kind.NOT_AS_ASKED),
        Fault("smaller context", {"n_ctx": 512}, Kind.NOT_AS_ASKED),
        Fault("timings that lie", {"timings_factor": 1000}, Kind.NOT_AS_ASKED),
        Fault(
            "up without drafts",
            {"no_speculation": True},
            Kind.DRAFT_UNAVAILABLE,
            options={"spec-type": "draft-mtp"},
        ),
    ]


def _others(dice: random.Random) -> list[Fault]:
    return [
        Fault("ignores SIGTERM", {"ignore_sigterm": True}, Kind.NONE, deadline_s=0.0),
        Fault("floods its log", {"log_flood_mib": dice.randint(20, 60)}, Kind.NONE),
        Fault("port is taken", {"port_taken": True}, Kind.PORT_IN_USE, times=dice.choice((1, 2, None))),
        Fault("ends with 1, wordless", {"exit": 1}, Kind.CRASHED, times=dice.choice((1, None))),
        Fault("ends with 0", {"exit": 0, "die_in": "request:1"}, Kind.STOPPED, times=1),
        Fault(
            "illegal access on a card",
            {"log": ["CUDA error: an illegal memory access was encountered"], "die_in": "request:2"},
            Kind.DEVICE_ERROR,
            times=dice.choice((1, 2)),
        ),
        Fault(
            "RPC device is lost",
            {"log": ["Remote RPC server crashed or returned malformed response"], "die_in": "request:1"},
            Kind.RPC_LOST,
            times=dice.choice((1, 2)),
        ),
    ]
