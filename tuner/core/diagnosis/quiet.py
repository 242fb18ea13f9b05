"""What a server that lives does otherwise than asked, as far as its log says so."""

from __future__ import annotations

import re

from tuner.core.diagnosis.devices import is_host
from tuner.core.diagnosis.log_lines import line_matching, line_with
from tuner.core.diagnosis.memory import last_request
from tuner.core.diagnosis.texts import RPC_LOST, SOFT_RETRY
from tuner.core.outcome import Kind, Outcome, Phase, Stage

# It goes on without: drafts, an RPC device (to 10435), any GPU.
_NO_DRAFTS = (
    "failed to initialize speculative",  # server-context.cpp:1396
    "requires a draft context",  # speculative.cpp:239
    "vocabs are not compatible",  # speculative.cpp:287
    "draft model is not",  # speculative.cpp:562
)
_DRAFT_MODEL_LOADED = "loading draft model"  # speculative.cpp:2621
_NO_DRAFT_TYPE = "no implementations specified for speculative"  # speculative.cpp:2786: always where none is
_NO_GPU = (
    "no usable GPU found",
    "failed to initialize CUDA",  # ggml-cuda.cu:226: a driver too old, no device
    "failed to initialize ROCm",
    "failed to initialize MUSA",
)
_OFFLOADED = re.compile(r"offloaded [1-9]\d*/\d+ layers to GPU")  # said with no GPU at all too
_MODEL_BUFFER = re.compile(r"(\S+) model buffer size =")
_LESS_CONTEXT = re.compile(
    r"context size reduced from \d+ to \d+"  # fit.cpp:434
    r"|the slot context \(\d+\) exceeds the training context"  # server-context.cpp:1366
)

# The card that was to hold the layer had no room for it (owners' logs), or cannot do what is asked of it.
_LAYER_ON_CPU = re.compile(r"layer \d+ is assigned to device CPU but .+ is assigned to device (\w+)")
_SLOWER = (
    "converting K and V to f16",  # fattn.cu:505
    "Flash Attention not supported, set to disabled",  # llama-context.cpp:552
    "(usually due to missing support)",  # llama-context.cpp:539
)


def degraded(log: str, *, context_was_asked: bool = False) -> Outcome | None:
    """What a living server's log says about doing it otherwise than asked; None where it says nothing.

    Args:
        log: Everything that it has printed.
        context_was_asked: Whether a context that was cut to fit is a difference.
    """
    for kind, line in (
        (Kind.RPC_LOST, line_with(log, RPC_LOST)),
        (Kind.DRAFT_UNAVAILABLE, _no_drafts(log)),
        (Kind.NOT_AS_ASKED, line_with(log, _NO_GPU) or _all_on_the_host(log)),
        (Kind.NOT_AS_ASKED, line_matching(log, _LESS_CONTEXT) if context_was_asked else None),
    ):
        if line is not None:
            return Outcome(kind, phase=Phase.LOAD, evidence=line)
    on_cpu = _LAYER_ON_CPU.search(log)
    if on_cpu is not None:
        return Outcome(
            Kind.DEGRADED,
            phase=Phase.LOAD,
            device=None if on_cpu[1] == "CPU" else on_cpu[1],
            evidence=line_matching(log, _LAYER_ON_CPU) or "",
            inferred=True,  # that memory is the cause: the line guesses at missing support
        )
    if (line := line_with(log, _SLOWER)) is not None:
        return Outcome(Kind.DEGRADED, phase=Phase.LOAD, evidence=line)
    if (line := line_with(log, (SOFT_RETRY,))) is None:
        return None
    refused = last_request(log)
    return Outcome(
        Kind.DEGRADED,
        phase=Phase.LOAD,
        stage=Stage.COMPUTE,
        device=refused.device,
        requested_mib=refused.mib,
        evidence=line,
    )


def _no_drafts(log: str) -> str | None:
    line = line_with(log, _NO_DRAFTS)
    if line is None and _DRAFT_MODEL_LOADED in log:
        line = line_with(log, (_NO_DRAFT_TYPE,))
    return line


def _all_on_the_host(log: str) -> str | None:
    """The line that promises a GPU where no weights went to one: a build with RPC warns of nothing."""
    buffers = [match[1].partition("[")[0] for match in _MODEL_BUFFER.finditer(log)]
    return line_matching(log, _OFFLOADED) if buffers and all(map(is_host, buffers)) else None
