"""Trials of a played rig, for what searches over them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.bench.task import task_of
from tests.support.played_rigs import simulated
from tests.support.trials import a_record
from tuner.core.cards import decode_bandwidth
from tuner.core.memory.predict import Predictor
from tuner.search.coordinates import complete
from tuner.search.memory_gate import MemoryGate
from tuner.search.queue import refusal
from tuner.simulate.launcher import SimulatedRig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord

RIG = "rtx5090-3090ti"
TASK = task_of(simulated(RIG))
BANDWIDTHS = {device.name: decode_bandwidth(device.description) for device in TASK.devices}


def candidate(mode: str, split: tuple[int, ...], depth: int = 0, **more: Value) -> Candidate:
    """A candidate of the pair's space, with a q8_0 cache."""
    options: dict[str, Value] = {"split-mode": mode, "cache-type-k": "q8_0", "cache-type-v": "q8_0"}
    if len(split) > 1:
        options["tensor-split"] = split
    if depth:
        options |= {"spec-type": "draft-mtp", "spec-draft-n-max": depth}
    return complete(TASK.bound, {**options, **{name.replace("_", "-"): one for name, one in more.items()}})


#: Unlike ones that the rig can run.
SOME = (
    candidate("layer", (26, 40)),
    candidate("tensor", (2, 3)),
    candidate("tensor", (1, 1)),
    candidate("tensor", (2, 3), 2),
    candidate("layer", (24, 42), 3),
    candidate("tensor", (2, 3), 4),
    candidate("tensor", (9, 11), 3),
    candidate("tensor", (2, 3), 3, GGML_CUDA_ALLREDUCE="internal"),
    candidate("layer", (28, 38)),
    candidate("tensor", (7, 13), 6),
    candidate("layer", (20, 46), 1),
    candidate("tensor", (3, 7), 1),
)


def trials(candidates: Iterable[Candidate], *, seed: int = 1, first: int = 0) -> list[TrialRecord]:
    """What launching these comes to, numbered from the first on."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rig = SimulatedRig(simulated(RIG).rig)  # of its own: the first launch on a rig is unlike the others
    return [a_record(number, one, rig.launch(one, rng)) for number, one in enumerate(candidates, first)]


def slower(record: TrialRecord, factor: float) -> TrialRecord:
    """The same trial, had all its requests taken so many times as long."""
    assert record.result is not None
    samples = tuple(
        replace(one, predicted_ms=one.predicted_ms * factor, wall_s=one.wall_s * factor)
        for one in record.result.samples
    )
    return replace(record, result=replace(record.result, samples=samples))


def gate(free_mib: Mapping[str, int] | None = None) -> MemoryGate:
    """Predicts the pair's memory; with other amounts that are free, if they are given."""
    devices = tuple(
        replace(one, free_mib=(free_mib or {}).get(one.name, one.free_mib)) for one in TASK.devices
    )
    return MemoryGate(Predictor(TASK.bound.splits, devices), devices, reserve_mib={}, source="played")


def refused(records: Sequence[TrialRecord]) -> Callable[[Candidate], bool]:
    """Whether a candidate was tried or breaks a rule."""
    return lambda one: refusal(TASK.bound, one, records) is not None


def never(_candidate: Candidate) -> bool:
    """Nothing is too large."""
    return False
