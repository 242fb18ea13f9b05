"""What to change first: concrete flags, for each kind of failure."""

from __future__ import annotations

import pytest

from tests.support.known_logs import KNOWN
from tuner.core.advice import advice
from tuner.core.diagnosis import Death, diagnose, examine
from tuner.core.outcome import Kind, Outcome, Phase, Stage

LOGS = {known.name: known for known in KNOWN}


def _advice(name: str) -> str:
    known = LOGS[name]
    return "\n".join(advice(examine(known.death()), known.log))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("O-load-layer", "number 1 of 2 in -ts"),
        ("O-load-tensor", "-sm layer"),
        ("O-kv-layer", "-ctk q8_0 -ctv q8_0"),
        ("O-compute-layer", "-ub 256"),
        ("O-seed-layer", "--spec-draft-n-max less"),
        ("oom-tensor-load", "GGML_CUDA_ALLREDUCE=internal"),
        ("oom-ub-layer", "-ub less"),
        ("O-fit-default", "-fit off"),
        ("no-gpu", "--list-devices"),
        ("unknown-flag", "--no-mmap"),
        ("removed-flag", "use --spec-draft-n-max"),
        ("bad-value", "another value for -sm"),
        ("bad-kv-type", "another value than q3_0 for -ctk"),
        ("bad-environment", "LLAMA_ARG_DRAFT_MAX was removed"),
        ("missing-model", "-m: is the file there"),
        ("draft-missing", "--spec-draft-model (-md)"),
        ("draft-unused", "--spec-type draft-simple"),
        ("draft-without-model", "--spec-draft-model FILE"),
        ("mtp-missing", "no MTP layers"),
        ("vocab-mismatch", "same vocabulary"),
        ("port-in-use", "port 56873"),
        ("quantised-v-without-fa", "-fa on"),
        ("tensor-fa-off", "-fa on, or -sm layer"),
        ("row-65", "-sm layer or -sm tensor"),
        ("rpc-down", "127.0.0.1:41593"),
        ("context-absurd", "-c less"),
        ("owners/kv-types-not-compiled", "-DGGML_CUDA_FA_ALL_QUANTS=ON"),
        ("owners/layer-quietly-on-cpu", "inferred: memory, one step from the wall"),
        ("owners/third-card-in-tensor-mode", "leave a card out of -dev"),
        ("other/no-kernel-image", "-DCMAKE_CUDA_ARCHITECTURES='120;86'"),
        ("other/tensor-over-two-makers", "one back end for all cards"),
        ("other/vulkan-lost", "restart"),
    ],
)
def test_the_flag_to_change_is_named(name: str, says: str) -> None:
    assert says in _advice(name)


def test_a_card_without_code_in_a_rocm_build_gets_its_target() -> None:
    log = (
        "ggml_cuda_init: found 1 ROCm devices (Total VRAM: 16368 MiB):\n"
        "  Device 0: AMD Radeon RX 6800, gfx1030 (0x1030), VMM: no, Wave Size: 32, VRAM: 16368 MiB\n"
        "ROCm error: invalid device function\n"
        "  current device: 0, in function f at x.cu:1\n"
    )
    outcome = diagnose(Death(log, -6, Phase.LOAD))
    assert (outcome.kind, outcome.device) == (Kind.UNSUPPORTED, "ROCm0")
    assert "AMD Radeon RX 6800" in outcome.evidence
    assert "-DGPU_TARGETS='gfx1030'" in advice(outcome, log)[0]


def test_architectures_that_the_log_does_not_name_are_left_to_the_build() -> None:
    log = "CUDA error: no kernel image is available for execution on the device\n"
    assert "-DCMAKE_CUDA_ARCHITECTURES='native'" in advice(diagnose(Death(log, -6, Phase.LOAD)), log)[0]


@pytest.mark.parametrize("stage", [None, *Stage])
@pytest.mark.parametrize("device", [None, "CUDA1", "CPU"])
def test_every_stage_without_memory_has_advice(stage: Stage | None, device: str | None) -> None:
    assert len(advice(Outcome(Kind.OUT_OF_MEMORY, stage=stage, device=device), "")) >= 2


@pytest.mark.parametrize("kind", [Kind.NONE, Kind.STOPPED])
def test_where_nothing_went_wrong_nothing_is_advised(kind: Kind) -> None:
    assert advice(Outcome(kind), "") == ()
