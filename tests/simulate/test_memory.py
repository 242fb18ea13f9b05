from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.played_rigs import document, rig_names, simulated, small
from tuner.core.assignment.splits import Splits
from tuner.core.memory.predict import Predictor
from tuner.core.outcome import Kind, Phase, Stage
from tuner.simulate.launcher import SimulatedRig
from tuner.simulate.rig_file import parse_rig
from tuner.simulate.setup import setup_of

if TYPE_CHECKING:
    from tuner.core.options import Value
    from tuner.simulate.memory import Need

LAYER: dict[str, Value] = {"split-mode": "layer", "tensor-split": (5, 5)}
TENSOR: dict[str, Value] = {"split-mode": "tensor", "tensor-split": (1, 1)}
MTP: dict[str, Value] = {"spec-type": "draft-mtp", "spec-draft-n-max": 3}


def need(rig: SimulatedRig, options: dict[str, Value]) -> Need:
    return rig.need(setup_of(rig.rig, options))


def test_layer_mode_gives_whole_layers_and_the_output_to_the_last_card() -> None:
    weights = need(small(), LAYER).stages[Stage.WEIGHTS]
    assert weights == pytest.approx((5000, 3500))


def test_mtp_layers_are_loaded_only_where_they_draft() -> None:
    rig = small()
    assert sum(need(rig, {**LAYER, **MTP}).stages[Stage.WEIGHTS]) == pytest.approx(9500)
    assert sum(need(rig, TENSOR).stages[Stage.WEIGHTS]) == pytest.approx(8500, rel=0.001)
    drafting = sum(need(rig, {**TENSOR, **MTP}).stages[Stage.WEIGHTS])
    assert drafting == pytest.approx(9620, rel=0.001)  # what no rule cuts, each card holds


def test_tensor_mode_cuts_at_whole_heads() -> None:
    third = need(small(), {**TENSOR, "tensor-split": (1, 2)}).stages[Stage.KV]
    assert third[0] + third[1] == pytest.approx(2 * 8192 * 4 * 128 * 4 / 2**20)
    assert third[0] / sum(third) in {0.25, 0.375, 0.5}  # heads are quarters, halves of two layers eighths


@pytest.mark.parametrize(("cache", "bits"), [("f16", 16.0), ("q8_0", 8.5), ("q4_0", 4.5)])
def test_kv_cache_goes_by_bits_and_context(cache: str, bits: float) -> None:
    options = {**LAYER, "cache-type-k": cache, "cache-type-v": cache, "ctx-size": 16_384}
    assert sum(need(small(), options).stages[Stage.KV]) == pytest.approx(
        2 * 16_384 * 4 * 128 * 2 * bits / 8 / 2**20
    )


def test_recurrent_states_multiply_with_the_draft_depth() -> None:
    assert sum(need(small(), LAYER).stages[Stage.RECURRENT]) == pytest.approx(60)
    assert sum(need(small(), {**LAYER, **MTP}).stages[Stage.RECURRENT]) == pytest.approx(240)


def test_compute_buffers_are_linear_in_the_ubatch() -> None:
    sizes = [
        need(small(), {**LAYER, "ubatch-size": ubatch}).stages[Stage.COMPUTE] for ubatch in (256, 512, 1024)
    ]
    assert sizes[1][0] == pytest.approx(2 * sizes[0][0])
    assert sizes[2][1] == pytest.approx(4 * sizes[0][1])


def test_nccl_takes_memory_in_tensor_mode_alone() -> None:
    rig = small()
    internal: dict[str, Value] = {**TENSOR, "GGML_CUDA_ALLREDUCE": "internal"}
    assert need(rig, TENSOR).stages[Stage.RUNTIME] == (1270, 1270)
    assert need(rig, internal).stages[Stage.RUNTIME] == (520, 520)
    assert need(rig, LAYER).stages[Stage.RUNTIME] == (520, 520)


def test_a_device_alone_holds_everything() -> None:
    alone = need(small(), {"split-mode": "none", "device": ("CUDA1",)})
    assert alone.names == ("CUDA1",)
    assert alone.stages[Stage.WEIGHTS] == pytest.approx((8500,))


def test_layers_that_are_not_offloaded_take_nothing() -> None:
    options: dict[str, Value] = {**LAYER, "gpu-layers": 4}
    assert sum(need(small(), options).stages[Stage.WEIGHTS]) == pytest.approx(2 * 1000 + 500)


@pytest.mark.parametrize(
    ("stage", "free_mib"),
    [
        (Stage.WEIGHTS, 4999),
        (Stage.KV, 5001),
        (Stage.RECURRENT, 5040),
        (Stage.COMPUTE, 5150),
        (Stage.RUNTIME, 5900),
    ],
)
def test_memory_runs_out_at_the_stage_that_is_reached(stage: Stage, free_mib: int) -> None:
    rig = with_free(free_mib)
    failed = rig.failure(LAYER)
    assert failed is not None
    assert (failed.kind, failed.stage, failed.device) == (Kind.OUT_OF_MEMORY, stage, "CUDA0")
    assert failed.phase is (Phase.WARMUP if stage is Stage.RUNTIME else Phase.LOAD)
    assert failed.requested_mib == pytest.approx(need(rig, LAYER).stages[stage][0])


def test_drafts_run_out_of_memory_as_drafts() -> None:
    wanted = need(small(), {**LAYER, **MTP})
    total = wanted.totals_mib[1] - wanted.stages[Stage.RUNTIME][1]
    rig = with_free(int(total) - 1, place=1)
    failed = rig.failure({**LAYER, **MTP})
    assert failed is not None
    assert (failed.stage, failed.device) == (Stage.DRAFT, "CUDA1")


def test_a_display_takes_memory_from_its_card() -> None:
    enough = int(need(small(), LAYER).totals_mib[0]) + 1
    assert with_free(enough).failure(LAYER) is None
    failed = with_free(enough, display=300).failure(LAYER)
    assert failed is not None
    assert failed.device == "CUDA0"


@pytest.mark.parametrize("name", rig_names())
@pytest.mark.parametrize("mode", ["layer", "tensor"])
def test_the_tuners_own_prediction_is_near_the_truth(name: str, mode: str) -> None:
    rig = simulated(name)
    options: dict[str, Value] = {
        "split-mode": mode,
        "device": rig.rig.names,
        "tensor-split": tuple(range(4, 4 + len(rig.rig.devices))),
        "ctx-size": rig.rig.workload.ctx,
    }
    predictor = Predictor(Splits(rig.model), rig.rig.as_seen().devices)
    predicted = predictor.predict(options).devices
    truth = need(rig, options)
    for device, weights in zip(truth.names, truth.stages[Stage.WEIGHTS], strict=True):
        assert predicted[device].weights == pytest.approx(weights, rel=0.01)
    for device, kv in zip(truth.names, truth.stages[Stage.KV], strict=True):
        assert predicted[device].kv == pytest.approx(kv, rel=0.01)
    for device, total in zip(truth.names, truth.totals_mib, strict=True):
        assert predicted[device].total == pytest.approx(total, rel=0.06, abs=400)


def with_free(free_mib: int, *, place: int = 0, display: int = 0) -> SimulatedRig:
    """The small rig with so much memory free on one card."""
    rows: list[dict[str, Any]] = [
        {"name": f"CUDA{at}", "mem_mib": 40_000, "free_mib": 30_000, "bw": 1e12, "flops": 6e13}
        for at in range(2)
    ]
    rows[place] |= {"free_mib": free_mib, "display": display}
    return SimulatedRig(parse_rig("small", {**document(), "device": rows}))
