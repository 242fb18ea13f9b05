"""Why a server died, or what it quietly did otherwise: from its log, its exit code and what was going on.

Texts and exit codes are those of llama.cpp builds 9095 to 11434; each pattern names the source file where it
is printed. Builds from 9246 on prefix every line with time and level, so nothing is anchored at line starts.
Lines of two writers can come out of order (an assert before the allocator line that caused it), so a pattern
is looked for in the whole log, not after another one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind, Outcome, Phase, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGTERM, SIGINT, SIGABRT = 15, 2, 6

#: A device with less than this part of its memory free was at its wall.
WALL_FRACTION = 0.02


@dataclass(frozen=True, slots=True)
class Death:
    """Everything that is known when a server has ended by itself or had to be ended."""

    log: str
    exit_code: int | None
    """As `subprocess` gives it, negative for a signal; None where the server still lived."""
    phase: Phase
    endpoints: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`host:port` of an RPC server to the engine's name of that device."""
    free_fraction: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Part of a device's memory that was free at death, where the driver says."""


# The allocators' own lines: CUDA and ROCm (ggml-cuda.cu:888), the generic one (ggml-backend.cpp:102), Vulkan
# (ggml-vulkan-buffers.cpp:226), CPU (ggml.c).
_ALLOCATING = re.compile(r"allocating ([\d.]+) MiB on device (\d+): cudaMalloc failed")
_FAILED_BUFFER = re.compile(r"failed to allocate (\S+?)(?:\[([^\]]+)\])? buffer of size (\d+)")
_VULKAN_SIZE = re.compile(r"Device memory allocation of size (\d+) failed")
_CPU_SIZE = re.compile(r"insufficient memory \(attempted to allocate\s+([\d.]+) MB\)")
_OUT_OF_MEMORY = (
    "cudaMalloc failed",
    "ErrorOutOfDeviceMemory",
    "Requested buffer size exceeds device buffer size limit",
    "insufficient memory (attempted to allocate",
    "unable to allocate",
    "failed to allocate buffer for kv cache",
    "failed to allocate buffer for rs cache",
    "failed to allocate compute",
    "failed to reserve initial output buffer",
    "std::bad_alloc",
)

# A meta device (`-sm tensor`) asserts where the others report (ggml-backend-meta.cpp:1714, 1771).
_META_ASSERT = re.compile(r"GGML_ASSERT\((?:meta_buf_ctx->bufs\[i\]|bufs\.back\(\) != nullptr)\) failed")

#: Stage lines, the most telling first.
_STAGES: tuple[tuple[str, Stage], ...] = (
    ("failed to load draft model", Stage.DRAFT),  # server-context.cpp:1253
    ("failed to create MTP context", Stage.DRAFT),  # server-context.cpp:1258
    ("failed to allocate buffer for kv cache", Stage.KV),  # llama-kv-cache.cpp:288
    ("failed to allocate buffer for rs cache", Stage.RECURRENT),  # llama-memory-recurrent.cpp:121
    ("failed to reserve initial output buffer", Stage.OUTPUT),
    ("failed to allocate compute", Stage.COMPUTE),  # llama-context.cpp:686-731
    ("unable to allocate", Stage.WEIGHTS),  # llama-model.cpp:1872
)

_BAD_FLAG = (
    "error: invalid argument:",
    "the argument has been removed",
    "error while handling argument",
    "error while handling environment variable",
    "expected value for argument",
    "unknown speculative type:",
    "Unsupported cache type:",
    "unknown value for --flash-attn",
    "invalid device:",
    "got more tensor-split values than devices",
)
_BAD_MODEL = ("failed to open GGUF", "unknown model architecture", "error loading model:")
_UNSUPPORTED = (
    "not implemented for architecture",  # llama-model.cpp:362
    "does not support split buffers",  # llama-model.cpp:1165
    "requires flash_attn to be enabled",  # llama-context.cpp:3830, 3849
    "this requires Flash Attention",  # llama-context.cpp:469
    "simultaneous use of SPLIT_MODE_TENSOR and KV cache quantization",
    "does not divide n_embd_head",
    "model does not support different K",
    "that cannot run the operation",
    "LLAMA_SPLIT_MODE_TENSOR needs",
    "no kernel image is available",
)
_DRAFT_UNAVAILABLE = (
    "doesn't contain MTP layers",  # llama-context.cpp:3886
    "failed to load draft model",
    "vocabs are not compatible",  # speculative.cpp:287
    "requires a draft context",  # speculative.cpp:239
    "failed to initialize speculative",
    "draft model is not",
)
_RPC_LOST = ("Remote RPC server crashed", "Failed to connect to", "RPC server version mismatch")
_DEVICE_ERROR = ("CUDA error", "ROCm error", "device lost", "fallen off the bus")
_ENGINE_BROKEN = ("error while loading shared libraries",)
_PORT_IN_USE = "couldn't bind HTTP server socket"

#: A compute buffer was too large and a smaller one is tried: what was said up to here was no death.
_SOFT_RETRY = "retrying without pipeline parallelism"  # llama-context.cpp:680

#: What a server says and goes on: slower than asked, or otherwise.
_DEGRADED = (
    _SOFT_RETRY,
    "converting K and V to f16",  # fattn.cu:505
    "Flash Attention not supported, set to disabled",  # llama-context.cpp:539
    "no usable GPU found",
    "(usually due to missing support)",  # attention on another device than its layer, as above
)


def diagnose(death: Death) -> Outcome:
    """Say how a server ended that was not ended by us.

    A log that says nothing leaves the exit code; an exit code that says nothing leaves `crashed`.
    """
    since_retry = replace(death, log=death.log.rpartition(_SOFT_RETRY)[2])
    for find in (_rpc_lost, _out_of_memory, _said, _aborted_at_the_wall):
        if (outcome := find(since_retry)) is not None:
            return outcome
    if (line := _line_with(since_retry.log, _DEVICE_ERROR)) is not None:
        return Outcome(Kind.DEVICE_ERROR, phase=death.phase, evidence=line)
    if death.exit_code in {-SIGTERM, -SIGINT, 0}:
        return Outcome(
            Kind.STOPPED,
            phase=death.phase,
            evidence=f"exit code {death.exit_code}: ended by somebody else",
            inferred=True,
        )
    if death.exit_code in {-4, 127}:
        why = "SIGILL: built for another processor" if death.exit_code == -4 else "a library is missing"
        return Outcome(Kind.ENGINE_BROKEN, phase=death.phase, evidence=f"exit code {death.exit_code}: {why}")
    return Outcome(
        Kind.CRASHED,
        phase=death.phase,
        evidence=_line_with(death.log, ("GGML_ASSERT",))
        or f"exit code {death.exit_code}; {_last_line(death.log)}",
    )


def degraded(log: str) -> Outcome | None:
    """What a living server's log says about doing it otherwise than asked; None where it says nothing."""
    line = _line_with(log, _DEGRADED)
    return None if line is None else Outcome(Kind.DEGRADED, phase=Phase.LOAD, evidence=line)


def _rpc_lost(death: Death) -> Outcome | None:
    line = _line_with(death.log, _RPC_LOST)
    return None if line is None else Outcome(Kind.RPC_LOST, phase=death.phase, evidence=line)


def _said(death: Death) -> Outcome | None:
    """What the log names in so many words."""
    for kind, texts in (
        (Kind.ENGINE_BROKEN, _ENGINE_BROKEN),
        (Kind.UNSUPPORTED, _UNSUPPORTED),
        (Kind.BAD_FLAG, _BAD_FLAG),
        (Kind.PORT_IN_USE, (_PORT_IN_USE,)),
        (Kind.DRAFT_UNAVAILABLE, _DRAFT_UNAVAILABLE),
        (Kind.BAD_MODEL, _BAD_MODEL),
    ):
        line = _line_with(death.log, texts)
        if line is not None:
            return Outcome(kind, phase=death.phase, evidence=line)
    return None


def _out_of_memory(death: Death) -> Outcome | None:
    outcome = _out_of_memory_while_loading(death) if death.phase is Phase.LOAD else None
    return outcome or _out_of_memory_at_runtime(death)


def _out_of_memory_while_loading(death: Death) -> Outcome | None:
    log = death.log
    meta = _META_ASSERT.search(log)
    line = _line_with(log, _OUT_OF_MEMORY)
    if line is None and meta is None:
        return None
    if line is None:  # the allocator's line is the one witness that can be lost: the assert alone infers
        line = _line_at(log, log.index("GGML_ASSERT"))
    device, requested_mib = _requested(death)
    stage = _tensor_stage(log) if meta is not None else _stage(log)
    said = device is not None or requested_mib is not None or meta is None
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=stage,
        device=device,
        requested_mib=requested_mib,
        evidence=line,
        inferred=not said,
    )


def _out_of_memory_at_runtime(death: Death) -> Outcome | None:
    """Out of memory in a decode; the engine's own first one is part of its load."""
    line = _line_with(death.log, ("CUDA error: out of memory", "ErrorOutOfDeviceMemory", "cudaMalloc failed"))
    if line is None:
        return None
    device, requested_mib = _requested(death)
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=Stage.RUNTIME,
        device=device,
        requested_mib=requested_mib,
        evidence=line,
    )


def _aborted_at_the_wall(death: Death) -> Outcome | None:
    """NCCL and the CUDA pool abort without a word of memory: a full card is what is left as a witness."""
    full = [name for name, free in death.free_fraction.items() if free < WALL_FRACTION]
    if death.exit_code != -SIGABRT or not full:
        return None
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=Stage.RUNTIME,
        device=full[0],
        evidence=f"aborted with {death.free_fraction[full[0]]:.1%} of {full[0]} free",
        inferred=True,
    )


def _requested(death: Death) -> tuple[str | None, float | None]:
    """Device and MiB of the last allocation that failed."""
    log = death.log
    failed = _last_match(_FAILED_BUFFER, log)
    if failed is not None:
        name, endpoint, size = failed.groups()
        device = death.endpoints.get(endpoint, name) if endpoint is not None else name
        return device, int(size) / 2**20
    allocating = _last_match(_ALLOCATING, log)
    if allocating is not None:
        return f"CUDA{allocating[2]}", float(allocating[1])
    vulkan = _last_match(_VULKAN_SIZE, log)
    if vulkan is not None:
        return None, int(vulkan[1]) / 2**20
    cpu = _last_match(_CPU_SIZE, log)
    if cpu is not None:
        return "CPU", float(cpu[1])
    return None, None


def _stage(log: str) -> Stage | None:
    for text, stage in _STAGES:
        if text in log:
            return stage
    return None


def _tensor_stage(log: str) -> Stage:
    """The assert names no stage: what had been reported before tells how far the load was."""
    if "KV buffer size" in log:
        return Stage.COMPUTE
    return Stage.KV if "model buffer size" in log else Stage.WEIGHTS


def _line_with(log: str, texts: tuple[str, ...]) -> str | None:
    """The line of the first of the texts that occurs."""
    for text in texts:
        at = log.find(text)
        if at >= 0:
            return _line_at(log, at)
    return None


def _line_at(log: str, at: int) -> str:
    start = log.rfind("\n", 0, at) + 1
    end = log.find("\n", at)
    return log[start : end if end >= 0 else len(log)].strip()


def _last_line(log: str) -> str:
    lines = log.rstrip().rsplit("\n", 1)
    return f"last line: {lines[-1].strip()}" if lines[-1].strip() else "its log is empty"


def _last_match(pattern: re.Pattern[str], log: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(log):
        last = match
    return last
