"""How real servers died, and what their logs say about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.known_logs import DEATHS, Known
from tests.support.logs import server_log
from tests.support.strategies import PROPERTY
from tuner.core.diagnosis import Death, degraded, diagnose
from tuner.core.outcome import Kind, Outcome, Phase, Stage

SOFT_RETRY = "compute buffer allocation failed, retrying without pipeline parallelism\n"


OOM = Kind.OUT_OF_MEMORY


@pytest.mark.parametrize("known", DEATHS, ids=str)
def test_a_line_more_of_a_second_writer_changes_nothing(known: Known) -> None:
    assert diagnose(known.death(known.log + "a line\n")) == diagnose(known.death())


def test_a_buffer_of_a_known_endpoint_has_that_devices_name() -> None:
    found = diagnose(
        Death(server_log("rpc-tensor-f16-2-1"), -6, Phase.LOAD, endpoints={"127.0.0.1:46563": "RPC1"})
    )
    assert (found.kind, found.stage, found.device) == (OOM, Stage.KV, "RPC1")


def test_a_buffer_of_an_unknown_endpoint_keeps_the_engines_name() -> None:
    found = diagnose(Death(server_log("rpc-layer-f16-31-0"), 1, Phase.LOAD))
    assert found.device == "RPC0"


# --- NCCL does not say that it is out of memory


def test_an_abort_of_nccl_with_a_full_card_is_an_inferred_out_of_memory() -> None:
    free = {"CUDA0": 0.011, "CUDA1": 0.3}
    found = diagnose(Death(server_log("oom-tensor-load"), -6, Phase.LOAD, free_fraction=free))
    assert (found.kind, found.stage, found.device, found.inferred) == (OOM, Stage.RUNTIME, "CUDA0", True)
    assert found.evidence == (
        "CUDA error: unhandled cuda error (run with NCCL_DEBUG=INFO for details), with 1.1% of CUDA0 free"
    )


def test_the_same_abort_with_room_left_is_a_device_error() -> None:
    free = {"CUDA0": 0.2, "CUDA1": 0.3}
    found = diagnose(Death(server_log("oom-tensor-load"), -6, Phase.LOAD, free_fraction=free))
    assert (found.kind, found.inferred) == (Kind.DEVICE_ERROR, False)
    assert "CUDA error" in found.evidence


@pytest.mark.parametrize("phase", [Phase.WARMUP, Phase.BENCHMARK])
def test_an_abort_without_a_word_is_inferred_in_every_phase(phase: Phase) -> None:
    found = diagnose(Death("GGML_ASSERT(x) failed", -6, phase, free_fraction={"CUDA1": 0.0199}))
    assert (found.kind, found.device, found.phase, found.inferred) == (OOM, "CUDA1", phase, True)


def test_a_full_card_explains_neither_an_exit_code_nor_what_the_log_names() -> None:
    full = {"CUDA0": 0.001}
    assert diagnose(Death("", 1, Phase.BENCHMARK, free_fraction=full)).kind is Kind.CRASHED
    log = "pre-allocated tensor (x) in a buffer (CUDA0) that cannot run the operation (NONE)"
    assert diagnose(Death(log, -6, Phase.LOAD, free_fraction=full)).kind is Kind.UNSUPPORTED


def test_a_card_right_at_the_bound_is_not_full() -> None:
    found = diagnose(Death("", -6, Phase.BENCHMARK, free_fraction={"CUDA0": 0.02}))
    assert found.kind is Kind.CRASHED


# --- a compute buffer that was tried smaller is no death


@pytest.mark.parametrize("phase", list(Phase))
def test_a_soft_retry_is_not_blamed_for_a_later_crash(phase: Phase) -> None:
    log = server_log("oom-ub-layer") + "CUDA error: an illegal memory access was encountered\n"
    found = diagnose(Death(log, -6, phase))
    assert (found.kind, found.requested_mib) == (Kind.DEVICE_ERROR, None)
    assert diagnose(Death(server_log("oom-ub-layer"), -11, phase)).kind is Kind.CRASHED


def test_a_crash_right_after_a_soft_retry_still_shows_the_last_line() -> None:
    found = diagnose(Death(SOFT_RETRY, -9, Phase.LOAD))
    assert found.evidence == f"exit code -9; last line: {SOFT_RETRY.strip()}"


def test_out_of_memory_after_a_soft_retry_is_found() -> None:
    log = server_log("oom-ub-layer") + "E CUDA error: out of memory\n"
    found = diagnose(Death(log, -6, Phase.BENCHMARK))
    assert (found.kind, found.stage, found.requested_mib) == (OOM, Stage.RUNTIME, None)


# --- texts of which no log is kept


def _found(log: str, exit_code: int | None = 1, phase: Phase = Phase.LOAD) -> Outcome:
    return diagnose(
        Death(
            f"0.00.000.001 I before\n0.00.000.002 E {log}\n0.00.000.003 I after\n",
            exit_code,
            phase,
        )
    )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("error: invalid argument: --no-mmap", Kind.BAD_FLAG),
        ("the argument has been removed. use --spec-draft-n-max", Kind.BAD_FLAG),
        ('error while handling argument "-sm": invalid value', Kind.BAD_FLAG),
        ('error while handling environment variable "LLAMA_ARG_DRAFT_MAX": removed', Kind.BAD_FLAG),
        ("expected value for argument", Kind.BAD_FLAG),
        ("unknown speculative type: mtp", Kind.BAD_FLAG),
        ("Unsupported cache type: q3_0", Kind.BAD_FLAG),
        ("invalid device: CUDA0", Kind.BAD_FLAG),
        ("couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080", Kind.PORT_IN_USE),
        ("failed to open GGUF file 'x.gguf'", Kind.BAD_MODEL),
        ("unknown model architecture: 'x'", Kind.BAD_MODEL),
        ("LLAMA_SPLIT_MODE_TENSOR not implemented for architecture 'mamba'", Kind.UNSUPPORTED),
        ("quantized V cache requires flash_attn to be enabled", Kind.UNSUPPORTED),
        ("K cache type q8_0 with block size 32 does not divide n_embd_head_k=80", Kind.UNSUPPORTED),
        ("simultaneous use of SPLIT_MODE_TENSOR and KV cache quantization not implemented", Kind.UNSUPPORTED),
        ("context type MTP requested but model doesn't contain MTP layers", Kind.DRAFT_UNAVAILABLE),
        ("failed to load draft model, 'd.gguf'", Kind.DRAFT_UNAVAILABLE),
        ("the target and draft vocabs are not compatible", Kind.DRAFT_UNAVAILABLE),
        ("Failed to connect to 127.0.0.1:50052", Kind.RPC_LOST),
        ("CUDA error: unspecified launch failure", Kind.DEVICE_ERROR),
        ("ggml_vulkan: device lost on Vulkan0", Kind.DEVICE_ERROR),
        ("error while loading shared libraries: libggml.so", Kind.ENGINE_BROKEN),
    ],
)
def test_texts_decide(line: str, kind: Kind) -> None:
    found = _found(line)
    assert found.kind is kind
    assert found.evidence == line.removesuffix(" ")
    assert (found.stage, found.inferred) == (None, False)


@pytest.mark.parametrize(
    ("line", "stage", "device", "mib"),
    [
        ("failed to allocate buffer for rs cache", Stage.RECURRENT, None, None),
        ("failed to reserve initial output buffer", Stage.OUTPUT, None, None),
        ("failed to initialize the context: std::bad_alloc", None, None, None),
        ("ggml_vulkan: Device memory allocation of size 1048576 failed.", None, None, 1.0),
        ("insufficient memory (attempted to allocate  512.50 MB)", None, "CPU", 512.5),
        ("vk::Device::allocateMemory: ErrorOutOfDeviceMemory", None, None, None),
    ],
)
def test_other_allocators_are_understood(
    line: str, stage: Stage | None, device: str | None, mib: float | None
) -> None:
    log = line if "Vulkan" not in line and "ggml_vulkan" not in line else f"{line}\nErrorOutOfDeviceMemory"
    found = _found(log)
    assert (found.kind, found.stage, found.device, found.requested_mib) == (OOM, stage, device, mib)


def test_an_assert_of_the_meta_device_alone_infers() -> None:
    found = _found("ggml-backend-meta.cpp:1714: GGML_ASSERT(bufs.back() != nullptr) failed", -6)
    assert (found.kind, found.stage, found.inferred) == (OOM, Stage.COMPUTE, True)
    assert "bufs.back()" in found.evidence


def test_the_first_decode_while_loading_can_run_out_of_memory() -> None:
    found = _found("CUDA error: out of memory", -6)
    assert (found.kind, found.stage, found.phase) == (OOM, Stage.RUNTIME, Phase.LOAD)


def test_out_of_memory_in_a_decode_has_the_stage_runtime() -> None:
    log = "allocating 300.00 MiB on device 1: cudaMalloc failed: out of memory"
    found = _found(log, -6, Phase.BENCHMARK)
    assert (found.kind, found.stage, found.device, found.requested_mib) == (
        OOM,
        Stage.RUNTIME,
        "CUDA1",
        300.0,
    )


# --- exit codes, where the log says nothing


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [
        (0, Kind.STOPPED),
        (-15, Kind.STOPPED),
        (-2, Kind.STOPPED),
        (-4, Kind.ENGINE_BROKEN),
        (127, Kind.ENGINE_BROKEN),
        (1, Kind.CRASHED),
        (-6, Kind.CRASHED),
        (-9, Kind.CRASHED),
        (-11, Kind.CRASHED),
    ],
)
@pytest.mark.parametrize("log", ["", "default", "tensor-75"])
def test_exit_codes_decide_where_the_log_is_silent(log: str, exit_code: int, kind: Kind) -> None:
    found = diagnose(Death(server_log(log) if log else "", exit_code, Phase.BENCHMARK))
    assert found.kind is kind
    assert str(exit_code) in found.evidence


def test_a_crash_names_its_assert_or_its_last_line() -> None:
    assert _found("x.cpp:1: GGML_ASSERT(obj_new) failed", -6).evidence == (
        "x.cpp:1: GGML_ASSERT(obj_new) failed"
    )
    assert _found("all is well", -11).evidence == "exit code -11; last line: after"
    assert diagnose(Death(" \n", 1, Phase.LOAD)).evidence == "exit code 1; its log is empty"


@PROPERTY
@given(st.text(), st.integers(-64, 255), st.sampled_from(Phase))
def test_every_death_has_a_kind_and_evidence(log: str, exit_code: int, phase: Phase) -> None:
    found = diagnose(Death(log, exit_code, phase))
    assert found.kind is not Kind.NONE
    assert found.evidence
    assert "\n" not in found.evidence


# --- servers that live, but do it otherwise


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("default", None),
        ("tensor-75", None),
        ("A-layer-lv4", None),
        ("A-tensor-lv4", None),
        ("rpc-layer-f16-16-15", None),
        ("oom-ub-layer", "retrying without pipeline parallelism"),
        ("rpc-layer-q8-27-4", "retrying without pipeline parallelism"),
    ],
)
def test_what_living_servers_say(log: str, says: str | None) -> None:
    found = degraded(server_log(log))
    if says is None:
        assert found is None
    else:
        assert found is not None
        assert (found.kind, found.policy.measured, found.policy.may_win) == (Kind.DEGRADED, True, False)
        assert says in found.evidence


@pytest.mark.parametrize(
    "line",
    [
        "no FlashAttention vector kernel compiled for K/V types q8_0-f16, converting K and V to f16 instead",
        "Flash Attention not supported, set to disabled",
        "layer 3 is assigned to device GPU but FA is assigned to device CPU (usually due to missing support)",
    ],
)
def test_quiet_fallbacks_are_seen(line: str) -> None:
    found = degraded(f"0.00.000.001 I before\n0.00.000.002 W {line}\n")
    assert found is not None
    assert (found.kind, found.evidence, found.inferred) == (Kind.DEGRADED, line, False)
