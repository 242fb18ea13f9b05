"""What asks as much of a device as a launch that ran out of memory there is not launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tests.support.trials import a_record, ended, measured
from tuner.core.assignment.splits import Splits
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult
from tuner.core.memory.predict import Predictor
from tuner.core.memory.walls import first_wall, walls_of
from tuner.core.outcome import Kind, Outcome, Stage
from tuner.core.rig import Device
from tuner.search.memory_gate import MemoryGate

if TYPE_CHECKING:
    from tuner.core.trial import TrialRecord

CARDS = (
    Device("CUDA0", "RTX 5080", 16_303, 15_629, uuid="GPU-a"),
    Device("CUDA1", "RTX 3090", 24_576, 24_129, uuid="GPU-b"),
)
PREDICTOR = Predictor(Splits(shaped(Shape())), CARDS)


def candidate(first: int, n_max: int = 4, mode: str = "layer", ubatch: int = 128) -> Candidate:
    return Candidate.of(
        {
            "device": ("CUDA0", "CUDA1"),
            "split-mode": mode,
            "tensor-split": (first, 66 - first),
            "gpu-layers": 999,
            "ctx-size": 131_072,
            "ubatch-size": ubatch,
            "cache-type-k": "q8_0",
            "cache-type-v": "q8_0",
            "spec-type": "draft-mtp",
            "spec-draft-n-max": n_max,
        }
    )


def ran_out(one: Candidate, device: str, stage: Stage | None, number: int = 0) -> TrialRecord:
    outcome = Outcome(Kind.OUT_OF_MEMORY, stage=stage, device=device, evidence="cudaMalloc failed")
    return a_record(number, one, LaunchResult(outcome))


@pytest.mark.parametrize("stage", [Stage.DRAFT, Stage.RUNTIME, None])
def test_what_asks_for_more_of_that_device_hits_the_same_wall(stage: Stage | None) -> None:
    walls = walls_of([ran_out(candidate(26), "CUDA1", stage)], PREDICTOR)
    for worse in (candidate(26), candidate(26, n_max=6), candidate(24), candidate(26, ubatch=256)):
        assert first_wall(walls, worse, PREDICTOR) is not None
    for better in (candidate(26, n_max=3), candidate(28), candidate(26, ubatch=64)):
        assert first_wall(walls, better, PREDICTOR) is None


def test_another_mode_is_another_matter() -> None:
    walls = walls_of([ran_out(candidate(26), "CUDA1", Stage.DRAFT)], PREDICTOR)
    assert first_wall(walls, candidate(10, mode="tensor"), PREDICTOR) is None


def test_a_step_is_compared_up_to_itself() -> None:
    """It died of its cache: what comes later in the load did not count."""
    walls = walls_of([ran_out(candidate(26), "CUDA1", Stage.KV)], PREDICTOR)
    assert first_wall(walls, candidate(26, n_max=1, ubatch=64), PREDICTOR) is not None


def test_what_was_measured_or_failed_otherwise_is_no_wall() -> None:
    rows = [a_record(0, candidate(26), measured(40.0)), a_record(1, candidate(26), ended(Kind.CRASHED))]
    assert (
        walls_of([*rows, a_record(2, None, ended(Kind.OUT_OF_MEMORY), reference="current")], PREDICTOR) == ()
    )


def test_the_gate_turns_away_what_hits_a_known_wall_however_sure_it_was_to_fit() -> None:
    gate = MemoryGate(PREDICTOR, CARDS, reserve_mib={}, source="engine model")
    one = next(candidate(first) for first in range(20, 40) if gate.excess(candidate(first)) is None)
    more = one.with_options({"spec-draft-n-max": 5})
    assert gate.excess(more) is None
    gate.learn([ran_out(one, "CUDA1", Stage.DRAFT)])
    found = gate.excess(more)
    assert found is not None
    assert found.device == "CUDA1"
