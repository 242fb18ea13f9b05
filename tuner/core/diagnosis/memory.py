"""Running out of memory, where the log says so: which allocation, of which device, and how much."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.diagnosis.devices import HOST, current_device, devices, endpoints, gpu_back_end, is_host
from tuner.core.diagnosis.log_lines import last_match, line_matching, line_with
from tuner.core.diagnosis.texts import SOFT_RETRY
from tuner.core.outcome import Kind, Outcome, Phase, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.diagnosis.death import Death

# The allocators' own lines: CUDA and ROCm (ggml-cuda.cu:888), the generic one (ggml-backend.cpp:102), Vulkan
# (ggml-vulkan-buffers.cpp:226), host (ggml.c:381, ggml-backend.cpp:2607), output (llama-context.cpp:2205).
_ALLOCATING = re.compile(r"allocating (\d{1,12}(?:\.\d+)?) MiB on device (\d{1,9}): cudaMalloc failed")
_FAILED_BUFFER = re.compile(
    r"failed to allocate (?!output )(\S+?)(?:\[([^\]\n]+)\])? buffer of size (\d{1,18})\b"
)
_VULKAN_SIZE = re.compile(r"(?:Device memory|Memory) allocation of size (\d{1,18}) failed")
_HOST_SIZE = re.compile(r"insufficient memory \(attempted to allocate\s+(\d{1,12}(?:\.\d+)?) MB\)")
_HOST_BYTES = re.compile(r"failed to allocate buffer of size (\d{1,18})\b")
_OUTPUT_SIZE = re.compile(r"failed to allocate output buffer of size (\d{1,12}(?:\.\d+)?) MiB")
_VULKAN_REFUSAL = re.compile(
    r"ErrorOutOfDeviceMemory|exceeds device buffer size limit|No suitable memory type found"
)
_GRAPH = re.compile(r"graph_reserve: failed to allocate compute buffers")
_FAILURES = (_ALLOCATING, _FAILED_BUFFER, _VULKAN_SIZE, _HOST_SIZE, _HOST_BYTES, _VULKAN_REFUSAL, _GRAPH)

#: Lines after which no load goes on. A prompt cache that cannot be kept is no death.
_FATAL = re.compile(
    r"unable to allocate \S+ buffer|failed to allocate buffer for|failed to allocate compute (?:pp|tg) buffers"
    r"|failed to reserve initial output buffer|failed to allocate output buffer of size"
    r"|vk::OutOfDeviceMemoryError|Out of memory: Killed process"
    r"|^(?!.*prompt cache).*std::bad_alloc",
    re.MULTILINE,
)
_UNABLE = re.compile(r"unable to allocate (\S+?)(?:\[([^\]\n]+)\])? buffer")

#: What decided, the most telling first.
_EVIDENCE = (
    "cudaMalloc failed",
    "ErrorOutOfDeviceMemory",
    "Requested buffer size exceeds device buffer size limit",
    "No suitable memory type found",
    "insufficient memory (attempted to allocate",
    "unable to allocate",
    "failed to allocate buffer for",
    "failed to allocate compute pp buffers",
    "failed to allocate compute tg buffers",
    "failed to reserve initial output buffer",
    "failed to allocate output buffer",
    "vk::OutOfDeviceMemoryError",
    "Out of memory: Killed process",
    "std::bad_alloc",
    "failed to allocate",
)

# A meta device (`-sm tensor`) asserts where the others report: tensors that stay (weights, caches) in
# ggml-backend-meta.cpp:1771, a compute buffer in :1714.
META_ASSERT = re.compile(r"GGML_ASSERT\((?:meta_buf_ctx->bufs\[i\]|bufs\.back\(\) != nullptr)\) failed")
_META_COMPUTE = "GGML_ASSERT(bufs.back()"

# A decode: the pool's growth, a kernel's or cuBLAS's workspace.
_IN_A_DECODE = re.compile(
    r"(?:CUDA|ROCm|MUSA) error: .*?(?:out of memory|resource allocation failed|ALLOC_FAILED)"
)

#: Stage lines, the most telling first.
_STAGES: tuple[tuple[str, Stage], ...] = (
    ("failed to load draft model", Stage.DRAFT),  # server-context.cpp:1253
    ("failed to create MTP context", Stage.DRAFT),  # server-context.cpp:1258
    ("failed to allocate buffer for rs cache", Stage.RECURRENT),  # llama-memory-recurrent.cpp:121
    ("failed to allocate buffer for", Stage.KV),  # llama-kv-cache.cpp:288
    ("failed to reserve initial output buffer", Stage.OUTPUT),  # llama-context.cpp:380
    ("failed to allocate output buffer", Stage.OUTPUT),  # llama-context.cpp:2205
    ("failed to allocate compute", Stage.COMPUTE),  # llama-context.cpp:686-731
    ("unable to allocate", Stage.WEIGHTS),  # llama-model.cpp:1872
)
_LOADED = (Stage.WEIGHTS, Stage.KV, Stage.RECURRENT, Stage.COMPUTE)
_TARGET_HAS_ITS_BUFFERS = "compute buffer size ="


@dataclass(frozen=True, slots=True)
class Requested:
    """An allocation that failed."""

    device: str | None
    mib: float | None


def out_of_memory(death: Death) -> Outcome | None:
    """The outcome of a server whose log says that memory ran out; None where it does not say so."""
    if (outcome := _two_back_ends(death)) is not None:
        return outcome
    in_a_decode = line_matching(death.log, _IN_A_DECODE)
    if in_a_decode is None and not _ran_out(death.log):
        return None
    if in_a_decode is not None:
        return Outcome(
            Kind.OUT_OF_MEMORY,
            phase=death.phase,
            stage=Stage.RUNTIME,
            device=current_device(death.log),
            evidence=in_a_decode,
        )
    requested = last_request(death.log, death.endpoints)
    meta = line_matching(death.log, META_ASSERT)
    if death.phase is not Phase.LOAD:
        stage: Stage | None = Stage.RUNTIME
    else:
        stage = _stage(death.log) if meta is None else _tensor_stage(death.log)
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=stage,
        device=requested.device,
        requested_mib=requested.mib,
        evidence=_assert_or(meta, line_with(death.log, _EVIDENCE, last=True)),
        # the allocator's line is the one witness that can be lost: the assert alone infers
        inferred=_failures(death.log) == 0 and _FATAL.search(death.log) is None,
    )


def smaller_buffer_failed_too(death: Death) -> Outcome | None:
    """A load that ended right after the try with smaller compute buffers, its last lines lost."""
    line = line_with(death.log, (SOFT_RETRY,))
    if line is None or death.phase is not Phase.LOAD or death.exit_code not in {1, None}:
        return None
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=Stage.COMPUTE,
        device=last_request(death.log, death.endpoints).device,
        evidence=line,
        inferred=True,
    )


def _two_back_ends(death: Death) -> Outcome | None:
    """Tensor mode over cards of two makers asserts in the same place, with memory free."""
    meta = line_matching(death.log, META_ASSERT)
    back_ends = sorted({device.back_end for device in devices(death.log)})
    if meta is None or len(back_ends) < 2 or _failures(death.log) or death.fullest() is not None:
        return None
    return Outcome(
        Kind.UNSUPPORTED,
        phase=death.phase,
        evidence=f"{meta} (tensor mode over {' and '.join(back_ends)})",
        inferred=not death.memory_is_known,
    )


def _ran_out(log: str) -> bool:
    """Whether more failed than was tried again with less."""
    if META_ASSERT.search(log) is not None or _FATAL.search(log) is not None:
        return True
    return _failures(log) > log.count(SOFT_RETRY)


def _failures(log: str) -> int:
    """How many allocations failed: each writes at most one line of a kind."""
    return max(sum(1 for _ in pattern.finditer(log)) for pattern in _FAILURES)


def last_request(log: str, rpc_devices: Mapping[str, str] = MappingProxyType({})) -> Requested:
    """The last allocation that failed.

    Args:
        log: Everything that was printed.
        rpc_devices: `host:port` of RPC servers to device names, beside what the log says.
    """
    known = {**endpoints(log), **rpc_devices}
    failed = last_match(_FAILED_BUFFER, log)
    if failed is not None:
        name, endpoint, size = failed.groups()
        return Requested(_device(name, endpoint, known), int(size) / 2**20)
    allocating = last_match(_ALLOCATING, log)
    if allocating is not None:
        return Requested(f"{gpu_back_end(log)}{allocating[2]}", float(allocating[1]))
    unable = last_match(_UNABLE, log)
    named = None if unable is None else _device(unable[1], unable[2], known)
    for pattern, mib_each, device in (
        (_VULKAN_SIZE, 2**-20, named or _only_one(log, "Vulkan")),
        (_HOST_SIZE, 1, HOST),
        (_HOST_BYTES, 2**-20, HOST),
        (_OUTPUT_SIZE, 1, named or HOST),
    ):
        if (match := last_match(pattern, log)) is not None:
            return Requested(device, float(match[1]) * mib_each)
    return Requested(named or current_device(log), None)


def _device(name: str, endpoint: str | None, known: dict[str, str]) -> str:
    """The engine's name of a buffer's device: an RPC buffer has the index on its own server."""
    if is_host(name):
        return HOST
    return name if endpoint is None else known.get(endpoint, name)


def _only_one(log: str, back_end: str) -> str | None:
    names = [device.name for device in devices(log) if device.back_end == back_end]
    return names[0] if len(names) == 1 else None


def _stage(log: str) -> Stage | None:
    stage = next((stage for text, stage in _STAGES if text in log), None)
    # the draft's memory comes last, by the same lines as the model's
    return Stage.DRAFT if stage in _LOADED and _TARGET_HAS_ITS_BUFFERS in log else stage


def _tensor_stage(log: str) -> Stage | None:
    """The assert names no stage: what had been reported before tells how far the load was."""
    if _TARGET_HAS_ITS_BUFFERS in log:
        return Stage.DRAFT
    if _META_COMPUTE in log:
        return Stage.COMPUTE
    if "KV buffer size" in log:
        return Stage.RECURRENT
    if "model buffer size" in log:
        return Stage.KV
    # at the usual verbosity nothing is reported at all
    return None if "verbosity = 3" in log else Stage.WEIGHTS


def _assert_or(meta: str | None, evidence: str | None) -> str:
    """A line with a size says more than an assert, and an assert more than the generic line."""
    if evidence is None or (meta is not None and "cudaMalloc failed" not in evidence):
        return meta or ""
    return evidence
