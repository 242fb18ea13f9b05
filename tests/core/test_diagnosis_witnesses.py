"""Witnesses that are weighed against each other: lines, memory, signals, and what came before."""

from __future__ import annotations

import pytest

from tests.support.logs import server_log
from tuner.core.diagnosis import Death, degraded, diagnose, examine
from tuner.core.diagnosis.texts import SOFT_RETRY
from tuner.core.outcome import Kind, Outcome, Phase, Stage

OOM = Kind.OUT_OF_MEMORY
META = "ggml-backend-meta.cpp:1771: GGML_ASSERT(meta_buf_ctx->bufs[i]) failed\n"
TWO_MAKERS = (
    "llama_prepare_model_devices: - device 0: CUDA0 (NVIDIA GeForce RTX 3090)\n"
    "llama_prepare_model_devices: - device 1: ROCm0 (AMD Radeon RX 7900 XTX)\n"
)
LOADING = "srv    load_model: loading model '/models/x.gguf'\n"


def test_tensor_mode_over_two_makers_is_unsupported_with_memory_free_and_only_then() -> None:
    def found(log: str, **free_mib: int) -> tuple[Kind, bool]:
        outcome = diagnose(Death(log, -6, Phase.LOAD, free_mib=free_mib))
        return outcome.kind, outcome.inferred

    assert found(TWO_MAKERS + META, CUDA0=9000, ROCm0=9000) == (Kind.UNSUPPORTED, False)
    assert found(TWO_MAKERS + META) == (Kind.UNSUPPORTED, True)
    assert found(TWO_MAKERS + META, CUDA0=9000, ROCm0=200) == (OOM, True)
    refusal = "allocating 18197.93 MiB on device 0: cudaMalloc failed: out of memory\n"
    assert found(TWO_MAKERS + META + refusal, CUDA0=9000, ROCm0=9000) == (OOM, False)
    assert found(META, CUDA0=9000) == (OOM, True)


def _found(log: str, exit_code: int | None = 1, phase: Phase = Phase.LOAD) -> Outcome:
    return diagnose(
        Death(
            f"0.00.000.001 I before\n0.00.000.002 E {log}\n0.00.000.003 I after\n",
            exit_code,
            phase,
        )
    )


@pytest.mark.parametrize(
    ("free_mib", "kind", "device"),
    [
        ({"CUDA0": 1400, "CUDA1": 700}, OOM, "CUDA1"),
        ({"CUDA0": 64, "CUDA1": 700}, OOM, "CUDA0"),
        ({"CUDA0": 1400, "CUDA1": 800}, Kind.DEVICE_ERROR, "CUDA0"),
    ],
)
def test_nccl_wants_more_than_other_buffers(free_mib: dict[str, int], kind: Kind, device: str) -> None:
    found = diagnose(Death(server_log("oom-tensor-load"), -6, Phase.LOAD, free_mib=free_mib))
    assert (found.kind, found.device) == (kind, device)
    aborted = diagnose(Death("GGML_ASSERT(x) failed", -6, Phase.BENCHMARK, free_mib={"CUDA0": 700}))
    assert aborted.kind is Kind.CRASHED


def test_mib_count_where_they_are_known() -> None:
    death = Death("", -6, Phase.BENCHMARK, free_mib={"CUDA0": 1500}, free_fraction={"CUDA0": 0.01})
    assert diagnose(death).kind is Kind.CRASHED
    found = diagnose(Death("", -6, Phase.BENCHMARK, free_mib={"CUDA0": 511, "CUDA1": 300}))
    assert (found.kind, found.device, found.evidence) == (OOM, "CUDA1", "aborted with 300 MiB of CUDA1 free")


def test_a_collective_that_fails_long_after_the_first_is_no_lack_of_memory() -> None:
    assert diagnose(Death(server_log("oom-tensor-load"), -6, Phase.BENCHMARK)).kind is Kind.DEVICE_ERROR


@pytest.mark.parametrize(
    ("exit_code", "killed", "kind"),
    [
        (-9, True, OOM),
        (-9, False, Kind.CRASHED),
        (-9, None, Kind.CRASHED),
        (-11, True, Kind.CRASHED),
    ],
)
def test_the_kernels_killer_is_told_by_evidence_alone(
    *,
    exit_code: int,
    killed: bool | None,
    kind: Kind,
) -> None:
    found = diagnose(Death(LOADING, exit_code, Phase.LOAD, killed_by_kernel=killed))
    assert found.kind is kind
    if kind is OOM:
        assert (found.device, found.inferred) == ("CPU", True)


def test_a_lost_card_is_lost_however_full_it_was() -> None:
    full = {"CUDA0": 10}
    for line in (
        "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.",
        "ggml_vulkan: device lost on Vulkan1, likely caused by previous submission (nodes 1 to 9):",
    ):
        found = diagnose(Death(line, -6, Phase.BENCHMARK, free_mib=full))
        assert (found.kind, found.inferred) == (Kind.DEVICE_ERROR, False)


def test_an_rpc_server_that_refuses_memory_is_no_lost_one() -> None:
    refused = (
        "failed to allocate RPC0[10.0.0.2:50052] buffer of size 1048576\nunable to allocate RPC0 buffer\n"
    )
    lost = "ggml-rpc.cpp:566: Remote RPC server crashed or returned malformed response\n"
    assert _found(refused + lost, -6).kind is OOM
    assert _found(lost, -6).kind is Kind.RPC_LOST


def test_an_rpc_server_that_is_down_is_named_where_it_is_known() -> None:
    log = "ggml-rpc.cpp:547: Failed to connect to 10.0.0.2:50052\n"
    found = diagnose(Death(log, -6, Phase.LOAD, endpoints={"10.0.0.2:50052": "RPC1"}))
    assert (found.kind, found.device) == (Kind.RPC_LOST, "RPC1")


def test_a_load_that_ends_at_the_wall_is_inferred_where_its_last_lines_are_lost() -> None:
    full = {"CUDA0": 90}
    found = diagnose(Death(LOADING, 1, Phase.LOAD, free_mib=full))
    assert (found.kind, found.device, found.inferred) == (OOM, "CUDA0", True)
    assert diagnose(Death("", 1, Phase.LOAD, free_mib=full)).kind is Kind.CRASHED


def test_a_load_that_ends_after_the_smaller_buffer_is_inferred() -> None:
    found = diagnose(Death(SOFT_RETRY, 1, Phase.LOAD))
    assert (found.kind, found.stage, found.inferred) == (OOM, Stage.COMPUTE, True)


def test_a_draft_file_is_no_bad_model_when_its_last_line_is_lost() -> None:
    log = LOADING + "gguf_init_from_file: failed to open GGUF file '/models/draft.gguf' (No such file)\n"
    found = diagnose(Death(log, 1, Phase.LOAD))
    assert (found.kind, found.inferred) == (Kind.DRAFT_UNAVAILABLE, True)


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("ROCm error: out of memory\n  current device: 1, in function alloc at x.cu:1", "ROCm1"),
        ("CUDA error: out of memory\n  current device: 0, in function alloc at x.cu:1", "CUDA0"),
        ("CUDA error: the resource allocation failed\n  current device: 1, in function f at x.cu:1", "CUDA1"),
        ("  current device: 1, in function alloc at x.cu:1\nCUDA error: out of memory", "CUDA1"),
        ("CUDA error: out of memory", None),
    ],
)
def test_a_decode_without_memory_names_its_card(line: str, device: str | None) -> None:
    found = _found(line, -6, Phase.BENCHMARK)
    assert (found.kind, found.stage, found.device, found.requested_mib) == (OOM, Stage.RUNTIME, device, None)


@pytest.mark.parametrize(
    ("log", "stage"),
    [
        (META, Stage.WEIGHTS),
        ("verbosity = 3 (adjust)\n" + META, None),
        ("Meta() model buffer size = 1.00 MiB\n" + META, Stage.KV),
        ("Meta() model buffer size = 1.00 MiB\nMeta() KV buffer size = 1.00 MiB\n" + META, Stage.RECURRENT),
        ("Meta() KV buffer size = 1.00 MiB\nGGML_ASSERT(bufs.back() != nullptr) failed", Stage.COMPUTE),
        ("Meta() compute buffer size =   1.00 MiB\n" + META, Stage.DRAFT),
    ],
)
def test_an_assert_tells_its_stage_by_what_was_there_before(log: str, stage: Stage | None) -> None:
    assert diagnose(Death(log, -6, Phase.LOAD)).stage is stage


def test_a_prompt_cache_that_is_too_large_is_no_death() -> None:
    log = (
        "listening on http://127.0.0.1:1\nfailed to allocate memory for prompt cache state: std::bad_alloc\n"
    )
    assert examine(Death(log, None, Phase.BENCHMARK)).kind is Kind.NONE


def test_an_output_buffer_is_not_a_device() -> None:
    found = _found("failed to allocate output buffer of size 12.50 MiB")
    assert (found.kind, found.stage, found.device, found.requested_mib) == (OOM, Stage.OUTPUT, "CPU", 12.5)


# --- servers that live, as a user sees them


@pytest.mark.parametrize(
    ("log", "exit_code", "kind"),
    [
        ("listening on http://127.0.0.1:1\n", None, Kind.NONE),
        ("listening on http://127.0.0.1:1\n", 0, Kind.NONE),
        ("listening on http://127.0.0.1:1\n", -15, Kind.STOPPED),
        ("listening on http://127.0.0.1:1\ncleaning up before exit...\n", None, Kind.STOPPED),
        ("listening on http://127.0.0.1:1\n", -11, Kind.CRASHED),
        ("listening on http://127.0.0.1:1\nfailed to initialize speculative decoding\n", -11, Kind.CRASHED),
        ("listening on http://127.0.0.1:1\nFailed to connect to 10.0.0.2:1\n", None, Kind.RPC_LOST),
        ("still loading\n", None, Kind.CRASHED),
        ("still loading\n", -15, Kind.STOPPED),
    ],
)
def test_what_became_of_a_server(log: str, exit_code: int | None, kind: Kind) -> None:
    assert examine(Death(log, exit_code, Phase.BENCHMARK)).kind is kind


def test_a_context_that_was_cut_to_fit_counts_where_one_was_asked_for() -> None:
    log = "common_params_fit_impl: context size reduced from 262144 to 147456 -> need 8064 MiB less memory\n"
    assert degraded(log) is None
    found = degraded(log, context_was_asked=True)
    assert found is not None
    assert found.kind is Kind.NOT_AS_ASKED


@pytest.mark.parametrize(
    "log",
    [
        "warning: no usable GPU found, --gpu-layers option will be ignored\n",
        "ggml_cuda_init: failed to initialize CUDA: CUDA driver version is insufficient\n",
        "offloaded 31/31 layers to GPU\nload_tensors:   CPU_Mapped model buffer size =    92.10 MiB\n",
    ],
)
def test_a_server_on_the_processor_is_not_as_asked(log: str) -> None:
    found = degraded(log)
    assert found is not None
    assert found.kind is Kind.NOT_AS_ASKED


def test_layers_on_the_processor_beside_a_card_are_no_difference() -> None:
    log = "offloaded 20/31 layers to GPU\n CPU_Mapped model buffer size = 9 MiB\n CUDA0 model buffer size = 9 MiB\n"
    assert degraded(log) is None
    assert degraded("offloaded 0/31 layers to GPU\n  CPU_Mapped model buffer size = 9 MiB\n") is None
