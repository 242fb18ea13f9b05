"""What a launch that has ended says of the memory that no line names."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tests.support.strategies import PROPERTY, launch_results
from tests.support.trials import a_record, a_sample, ended, measured
from tuner.core.assignment.splits import Splits
from tuner.core.candidate import Candidate
from tuner.core.memory.observe import observations_of
from tuner.core.memory.predict import Predictor
from tuner.core.outcome import Kind, Outcome, Stage
from tuner.core.rig import Device
from tuner.core.telemetry import GpuSummary

if TYPE_CHECKING:
    from tuner.core.launch import LaunchResult
    from tuner.core.memory.learned import Observation
    from tuner.core.memory.need import DeviceNeed
    from tuner.core.options import Value

CARDS = (
    Device("CUDA0", "RTX 5080", 16_303, 15_900, uuid="GPU-a"),
    Device("CUDA1", "RTX 3090", 24_576, 24_100, uuid="GPU-b"),
)
STATED = (
    Device("RPC0", "10.0.0.2:50052", 16_000, 16_000, stated=True),
    Device("CUDA0", "RTX 3090", 24_576, 24_100, uuid="GPU-b"),
)
SPLITS = Splits(shaped(Shape()))
OPTIONS: dict[str, Value] = {"tensor-split": (2, 3), "ctx-size": 8192, "gpu-layers": 999}


def seen(
    result: LaunchResult | None, devices: tuple[Device, ...] = CARDS, options: dict[str, Value] = OPTIONS
) -> tuple[Observation, ...]:
    record = a_record(0, Candidate.of(options), result)
    return observations_of([record], Predictor(SPLITS, devices), devices, "source")


def need(name: str, devices: tuple[Device, ...] = CARDS) -> DeviceNeed:
    return Predictor(SPLITS, devices).predict(OPTIONS).devices[name]


def out_of_memory(stage: Stage | None, device: str = "CUDA0", evidence: str = "a line") -> LaunchResult:
    outcome = Outcome(Kind.OUT_OF_MEMORY, stage=stage, device=device, evidence=evidence)
    return replace(ended(Kind.OUT_OF_MEMORY), outcome=outcome)


# --- launches that worked


def test_reading_of_the_driver_is_a_value() -> None:
    (one,) = seen(replace(measured(50), free_mib={"CUDA1": 5000}))
    unnamed = 24_100 - 5000 - need("CUDA1").buffers
    assert (one.device, one.situation, one.source) == ("GPU-b", "CUDA/layer", "source")
    assert one.low_mib == one.high_mib == pytest.approx(unnamed)


def test_each_device_is_seen_by_itself() -> None:
    both = seen(replace(measured(50), free_mib={"CUDA0": 900, "CUDA1": 5000}))
    assert [one.device for one in both] == ["GPU-a", "GPU-b"]


def test_height_of_the_telemetry_counts_where_it_was_more() -> None:
    summary = GpuSummary(9, 9, 1.0, used_max_mib=20_000.4)
    result = replace(measured(50), free_mib={"CUDA1": 9000}, telemetry={"CUDA1": summary})
    (one,) = seen(result)
    assert one.low_mib == pytest.approx(20_000 - (24_576 - 24_100) - need("CUDA1").buffers)
    (other,) = seen(replace(result, free_mib={"CUDA1": 1000}))
    assert other.low_mib == pytest.approx(23_100 - need("CUDA1").buffers)


def test_no_reading_says_nothing_of_a_card() -> None:
    assert seen(measured(50)) == ()
    assert seen(replace(measured(50), free_mib={"CUDA7": 1})) == ()


def test_stated_device_gives_an_upper_bound() -> None:
    (one,) = seen(measured(50), STATED)
    assert one.situation == "RPC/layer/stated"
    assert one.low_mib is None
    assert one.high_mib == pytest.approx(16_000 - need("RPC0", STATED).buffers)


def test_situation_says_drafts_and_reductions() -> None:
    options: dict[str, Value] = {**OPTIONS, "split-mode": "tensor", "spec-type": "draft-mtp"}
    result = replace(measured(50), free_mib={"CUDA0": 900})
    assert [one.situation for one in seen(result, options=options)] == ["CUDA/tensor/drafts/nccl"]
    options["GGML_CUDA_ALLREDUCE"] = "internal"
    assert [one.situation for one in seen(result, options=options)] == ["CUDA/tensor/drafts"]


def test_devices_that_the_launch_did_not_use_are_not_seen() -> None:
    result = replace(measured(50), free_mib={"CUDA0": 900, "CUDA1": 900})
    assert [one.device for one in seen(result, options={**OPTIONS, "device": ("CUDA1",)})] == ["GPU-b"]


def test_disturbed_launch_is_an_upper_bound_since_others_may_have_taken_it() -> None:
    (one,) = seen(replace(measured(50, Kind.DISTURBED), free_mib={"CUDA1": 5000}))
    assert one.low_mib is None
    assert one.high_mib == pytest.approx(19_100 - need("CUDA1").buffers)


@pytest.mark.parametrize("devices", [CARDS, STATED])
def test_fallback_to_a_smaller_buffer_says_nothing(devices: tuple[Device, ...]) -> None:
    assert seen(replace(measured(50, Kind.DEGRADED), free_mib={"CUDA0": 900}), devices) == ()


# --- launches that ran out of memory


@pytest.mark.parametrize(
    ("stage", "parts"),
    [
        (Stage.WEIGHTS, ("weights",)),
        (Stage.KV, ("weights", "kv")),
        (Stage.RECURRENT, ("weights", "kv", "recurrent")),
        (Stage.COMPUTE, ("weights", "kv", "recurrent", "compute")),
        (Stage.RUNTIME, ("buffers",)),
    ],
)
def test_out_of_memory_bounds_from_below_by_what_was_asked_for(stage: Stage, parts: tuple[str, ...]) -> None:
    (one,) = seen(out_of_memory(stage))
    assert one.device == "GPU-a"
    assert one.low_mib == pytest.approx(15_900 - sum(getattr(need("CUDA0"), part) for part in parts))
    assert one.high_mib is None


@pytest.mark.parametrize(
    "result",
    [
        out_of_memory(None),
        out_of_memory(Stage.OUTPUT),
        out_of_memory(Stage.KV, device="host"),
        out_of_memory(Stage.KV, evidence=""),
        ended(Kind.CRASHED),
        ended(Kind.HUNG),
        ended(Kind.STOPPED),
    ],
    ids=lambda result: result.outcome.sentence(),
)
def test_end_that_does_not_say_where_says_nothing(result: LaunchResult) -> None:
    assert seen(result) == ()


def test_launch_that_left_less_than_its_reserve_is_a_value() -> None:
    result = replace(out_of_memory(Stage.RUNTIME), free_mib={"CUDA0": 100, "CUDA1": 5000})
    first, second = seen(result)
    assert first.low_mib == first.high_mib == pytest.approx(15_800 - need("CUDA0").buffers)
    assert second.low_mib == second.high_mib == pytest.approx(19_100 - need("CUDA1").buffers)


def test_reading_does_not_count_where_a_buffer_was_refused() -> None:
    (one,) = seen(replace(out_of_memory(Stage.KV), free_mib={"CUDA0": 9000, "CUDA1": 9000}))
    assert (one.device, one.high_mib) == ("GPU-a", None)


# --- references: what the engine's own lines name is known, what it was asked for is not


def of_reference(result: LaunchResult, devices: tuple[Device, ...] = CARDS) -> tuple[Observation, ...]:
    record = a_record(0, None, result, reference="engine-default")
    return observations_of([record], Predictor(SPLITS, devices), devices, "source")


REFERENCE = replace(
    measured(50),
    buffers_mib=MappingProxyType({"CUDA0": 12_000.0, "CUDA1": 17_000.5, "Host": 1_000.0}),
    free_mib=MappingProxyType({"CUDA0": 3_000, "CUDA1": 6_000}),
)


def test_what_the_driver_shows_beyond_the_lines_of_a_reference_is_a_value() -> None:
    first, second = of_reference(REFERENCE)
    assert (first.device, first.situation, first.source) == ("GPU-a", "CUDA/layer", "source")
    assert first.low_mib == first.high_mib == 15_900 - 3_000 - 12_000
    assert (second.device, second.low_mib) == ("GPU-b", 24_100 - 6_000 - 17_000.5)
    higher = {"CUDA0": GpuSummary(9, 9, 1.0, used_max_mib=13_500.0)}
    first, _ = of_reference(replace(REFERENCE, telemetry=higher))
    assert first.low_mib == 13_500 - (16_303 - 15_900) - 12_000


def test_a_reference_on_one_device_is_not_split() -> None:
    (one,) = of_reference(replace(REFERENCE, buffers_mib={"CUDA1": 17_000.0, "Host": 9.0}))
    assert (one.device, one.situation) == ("GPU-b", "CUDA/none")


@pytest.mark.parametrize(
    "result",
    [
        replace(REFERENCE, buffers_mib={}),
        replace(REFERENCE, buffers_mib={"Host": 1_000.0}),
        replace(REFERENCE, buffers_mib={**REFERENCE.buffers_mib, "CUDA_Meta": 5.0}),
        replace(REFERENCE, free_mib={}),
        replace(REFERENCE, outcome=Outcome(Kind.DISTURBED)),
        replace(REFERENCE, outcome=Outcome(Kind.DEGRADED)),
        replace(REFERENCE, outcome=Outcome(Kind.OUT_OF_MEMORY, stage=Stage.KV, device="CUDA0", evidence="x")),
        replace(REFERENCE, samples=(a_sample(), a_sample(draft_n=12, draft_n_accepted=9))),
    ],
    ids=[
        "no line",
        "host only",
        "by tensor",
        "no reading",
        "disturbed",
        "degraded",
        "out of memory",
        "drafts",
    ],
)
def test_a_reference_of_which_not_all_is_known_says_nothing(result: LaunchResult) -> None:
    assert of_reference(result) == ()


def test_a_reference_that_could_have_drafted_and_did_not_counts() -> None:
    assert len(of_reference(replace(REFERENCE, samples=(a_sample(draft_n=0, draft_n_accepted=0),)))) == 2


# --- records


def test_a_trial_that_runs_says_nothing() -> None:
    assert seen(None) == ()


def test_oldest_trial_comes_first() -> None:
    results = [replace(measured(50), free_mib={"CUDA0": free}) for free in (900, 800)]
    records = [a_record(number, Candidate.of(OPTIONS), result) for number, result in enumerate(results)]
    old, new = observations_of(records, Predictor(SPLITS, CARDS), CARDS, "source")
    assert (new.low_mib or 0) - (old.low_mib or 0) == 100


@PROPERTY
@given(launch_results)
def test_no_launch_says_that_there_is_more_at_least_than_at_most(result: LaunchResult) -> None:
    for one in seen(result, STATED):
        assert (one.low_mib, one.high_mib) != (None, None)
        if one.low_mib is not None and one.high_mib is not None:
            assert one.low_mib == one.high_mib
