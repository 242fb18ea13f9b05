"""Launches of servers that fail in every way, in no order, and how each of them was recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from tests.chaos.arena import Arena
from tests.chaos.faults import Fault, all_faults
from tests.chaos.ledger import Ledger
from tuner.core.outcome import Kind

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tuner.core.options import Value
    from tuner.core.outcome import Stage
    from tuner.core.trial import TrialRecord

#: The number that tells candidates apart is their ubatch-size.
_FIRST_UBATCH = 101
#: More than this of a log is not kept; the tuner's own cap is below it.
LOG_LIMIT_MIB = 17
NEVER = "no launch"

_SPACE = """schema_version = 1
about = "One candidate a fault."

[fixed]
gpu-layers = 999
parallel = 1
flash-attn = "on"
batch-size = 4096

[parameters.split-mode]
kind = "choice"
choices = ["layer", "tensor"]

[parameters.spec-type]
kind = "choice"
choices = ["none", "draft-mtp"]

[parameters.ubatch-size]
kind = "int"
low = 1
high = 4096
"""


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch: what was done to it, what it had to be called, and what it was."""

    fault: Fault
    expected: str
    got: str
    took_s: float

    @property
    def is_right(self) -> bool:
        """Whether it was recorded under its name."""
        return self.expected == self.got

    @property
    def is_in_time(self) -> bool:
        """Whether it ended within its deadlines."""
        return self.fault.bound_s is None or self.took_s <= self.fault.bound_s


@dataclass(slots=True)
class FaultRun:
    """What came of a study of faults."""

    launches: list[Launched] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def wasted_s(self) -> float:
        """What launches took that only a deadline ended."""
        return sum(one.took_s for one in self.launches if one.fault.bound_s is not None)

    @property
    def bound_s(self) -> float:
        """What they may take."""
        return sum(one.fault.bound_s for one in self.launches if one.fault.bound_s is not None)


def plan_faults(launches: int, dice: random.Random, *, every: bool = True) -> list[Fault]:
    """Faults for at least so many launches, in no order; `every` has each fault once, however many that makes."""
    pool = all_faults(dice)
    dice.shuffle(pool)
    chosen = pool if every else []
    left = [] if every else pool
    while sum(len(fault.ends) for fault in chosen) < launches:
        if not left:
            left = all_faults(dice)
            dice.shuffle(left)
        chosen.append(left.pop())
    return apart(chosen)


def apart(faults: Sequence[Fault]) -> list[Fault]:
    """The same faults, with one that does the rig no harm between any two that do."""
    harmless = [fault for fault in faults if not fault.strains]
    result: list[Fault] = []
    for fault in faults:
        if fault.strains:
            if result and result[-1].strains and harmless:
                result.append(harmless.pop(0))
            result.append(fault)
    return [*result, *harmless]


def run_faults(folder: Path, faults: Sequence[Fault]) -> FaultRun:
    """One run over a study whose candidates fail one after the other."""
    folder.mkdir(parents=True)
    space = folder / "faults.toml"
    space.write_text(_SPACE + "".join(_start(index, fault) for index, fault in enumerate(faults)))
    arena = Arena(folder, space=str(space))
    for index, fault in enumerate(faults):
        arena.fake.when({"ubatch-size": _FIRST_UBATCH + index}, times=fault.times, **fault.do)
    run = FaultRun()
    try:
        ended = arena.run(1 + sum(len(fault.ends) for fault in faults))
        if ended.code != 0:
            run.wrong.append(f"the run ended with {ended.code}: {ended.stderr.strip()[-2000:]}")
        run.wrong += Ledger(arena).check(complete=ended.code == 0, only_cuts=False).sentences
        records = arena.records()
        for index, fault in enumerate(faults):
            run.launches += _compared(
                fault, [one for one in records if _ubatch(one) == _FIRST_UBATCH + index]
            )
        run.wrong += [f"{path} has {path.stat().st_size} bytes" for path in _large_logs(arena)]
    finally:
        arena.close()
    return run


def _start(index: int, fault: Fault) -> str:
    options = {"split-mode": "layer", "spec-type": "none", **fault.options}
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    about = json.dumps(fault.name)
    return "\n".join(
        ["", "[[start]]", f"about = {about}", *lines, f"ubatch-size = {_FIRST_UBATCH + index}", ""]
    )


def _ubatch(record: TrialRecord) -> Value | None:
    return None if record.candidate is None else record.candidate.get("ubatch-size")


def _compared(fault: Fault, records: Sequence[TrialRecord]) -> Iterator[Launched]:
    """Launches of one candidate against what its fault had to do to them; too few or too many are wrong."""
    for kind, record in zip_longest(fault.ends, records):
        wanted = NEVER if kind is None else _called(kind, fault.stage)
        if record is None:
            yield Launched(fault, wanted, NEVER, 0.0)
        elif record.result is None:
            yield Launched(fault, wanted, "still running", 0.0)
        else:
            result = record.result
            got = _called(result.outcome.kind, None if kind is Kind.DEGRADED else result.outcome.stage)
            yield Launched(fault, wanted, got, result.load_s + result.requests_s + result.shutdown_s)


def _called(kind: Kind, stage: Stage | None) -> str:
    return kind.value if stage is None else f"{kind} at {stage}"


def _large_logs(arena: Arena) -> list[Path]:
    logs = (arena.command.study / "trials").glob("*/server.log")
    return [path for path in logs if path.stat().st_size > LOG_LIMIT_MIB * 2**20]
