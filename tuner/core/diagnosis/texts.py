"""What llama-server says when it fails, by what it means; where one is printed stands beside it (11434)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.outcome import LOST_DEVICE, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

ENGINE_BROKEN = (
    "error while loading shared libraries",
    "symbol lookup error",
    "cannot execute binary file",
    "Illegal instruction",  # the shell's word for SIGILL
)
UNSUPPORTED = (
    "no kernel image is available",  # a build without that card's architecture
    "invalid device function",  # the same in HIP's words
    "has no device code compatible with",  # common.cuh:417
    "not implemented for architecture",  # llama-model.cpp:362
    "does not support split buffers",  # llama-model.cpp:1165
    "requires flash_attn to be enabled",  # llama-context.cpp:3830, 3849
    "this requires Flash Attention",  # llama-context.cpp:469
    "simultaneous use of SPLIT_MODE_TENSOR and KV cache quantization",  # to 9246
    "does not divide n_embd_head",  # llama-context.cpp:3858
    "model does not support different K",  # llama-context.cpp:3839
    "that cannot run the operation",  # ggml-backend.cpp, tensor mode with a third device or DFlash
    "LLAMA_SPLIT_MODE_TENSOR needs",  # llama.cpp:167
)
BAD_FLAG = (
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
    "input configs, but system only has",
    "invalid value for main_gpu",  # llama.cpp:294
    "RPC not supported in this build",
)
PORT_IN_USE = ("couldn't bind HTTP server socket",)
DRAFT_UNAVAILABLE = (
    "doesn't contain MTP layers",  # llama-context.cpp:3886
    "failed to load draft model",  # server-context.cpp:1253
    "vocabs are not compatible",  # speculative.cpp:287
    "requires a draft context",  # speculative.cpp:239
    "draft model is not",  # speculative.cpp:562
    "failed to initialize speculative",  # server-context.cpp:1396
    "failed to create MTP context",  # server-context.cpp:1258
)
BAD_MODEL = (
    "failed to open GGUF",
    "unknown model architecture",
    "error loading model:",
    "failed to read magic",
)
STOPPED = ("Received second interrupt, terminating immediately",)

#: Kinds that a text names, the most telling first.
SAID: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        Kind.ENGINE_BROKEN: ENGINE_BROKEN,
        Kind.UNSUPPORTED: UNSUPPORTED,
        Kind.BAD_FLAG: BAD_FLAG,
        Kind.PORT_IN_USE: PORT_IN_USE,
        Kind.DRAFT_UNAVAILABLE: DRAFT_UNAVAILABLE,
        Kind.BAD_MODEL: BAD_MODEL,
        Kind.STOPPED: STOPPED,
    }
)

RPC_LOST = (
    "Remote RPC server crashed",  # ggml-rpc.cpp:35
    "Failed to connect to",  # ggml-rpc.cpp:547
    "RPC server version mismatch",
    "RPC handshake failed",
)

#: The card itself: whatever else is said, and however full it was.
DEVICE_GONE = (
    *LOST_DEVICE,
    "device lost on",  # ggml-vulkan.cpp:256, 14291
    "ErrorDeviceLost",
    "vk::DeviceLostError",
    "NVRM: Xid",
    "uncorrectable ECC error",
)
DEVICE_ERROR = (
    "CUDA error:",
    "ROCm error:",
    "MUSA error:",
    "failed to initialize the context: failed to initialize",  # llama-context.cpp:339: no stream, no handle
)
#: A collective that failed without saying why; its buffers are allocated at the first decode.
NCCL_WORDLESS = ("unhandled cuda error", "unhandled hip error")

#: A compute buffer was too large and a smaller one is tried: what was said up to here was no death.
SOFT_RETRY = "retrying without pipeline parallelism"  # llama-context.cpp:680
