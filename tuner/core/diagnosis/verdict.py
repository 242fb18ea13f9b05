"""How a server ended: the witnesses in the order in which they are believed."""

from __future__ import annotations

import re

from tuner.core.diagnosis.death import SIGABRT, SIGILL, SIGINT, SIGKILL, SIGTERM, Death
from tuner.core.diagnosis.devices import HOST, current_device, devices, endpoints
from tuner.core.diagnosis.log_lines import CLEANING_UP, is_up, last_line, line_with
from tuner.core.diagnosis.memory import out_of_memory, smaller_buffer_failed_too
from tuner.core.diagnosis.quiet import degraded
from tuner.core.diagnosis.texts import (
    BAD_MODEL,
    DEVICE_ERROR,
    DEVICE_GONE,
    NCCL_WORDLESS,
    RPC_LOST,
    SAID,
)
from tuner.core.outcome import Kind, Outcome, Phase, Stage

#: NCCL's own buffers on each card, as measured in tensor mode.
NCCL_MIB = 750

#: What an abort leaves in a log where its exit code is not known.
_ABORT = re.compile(r"GGML_ASSERT\(|(?:CUDA|ROCm|MUSA) error|terminate called after throwing")
#: Said on the way out; why was on lines that are lost, or on none.
_LAST_WORDS = (
    "GGML_ASSERT",
    "terminate called after throwing",
    "Segmentation fault",
    *("CUDA error", "ROCm error", "MUSA error"),
)
_NO_CODE_FOR_CARD = ("no kernel image is available", "invalid device function", "no device code compatible")
_MODEL_IS_READ = ("loading model tensors", "load_model: loading model")
_MODEL_FILE = re.compile(r"load_model: loading model '([^']*)'")
_FILE_NOT_OPENED = re.compile(r"failed to open GGUF file '([^']*)'")
_NOT_CONNECTED = re.compile(r"(?:Failed to connect to|RPC handshake failed for) (\S+:\d+)")
_VULKAN_LOST = re.compile(r"device lost on (Vulkan\d+)")


def diagnose(death: Death) -> Outcome:
    """Say how a server ended that was not ended by us.

    A log that says nothing leaves the exit code; an exit code that says nothing leaves `crashed`.
    """
    return _reason(death) or _by_exit_code(death)


def examine(death: Death) -> Outcome:
    """Say what became of a server that may as well have run well and been stopped.

    Unlike `diagnose` it knows of no purpose: an end in order is no failure, and a server that lives is none.
    """
    if (outcome := _reason(death)) is not None:
        return outcome
    if not is_up(death.log) or death.exit_code not in {None, 0, -SIGTERM, -SIGINT}:
        return _by_exit_code(death)
    if (quiet := degraded(death.log, context_was_asked=True)) is not None:
        return quiet
    lives = death.exit_code is None and CLEANING_UP not in death.log
    kind = Kind.NONE if lives or death.exit_code == 0 else Kind.STOPPED
    evidence = line_with(death.log, (CLEANING_UP,)) or last_line(death.log)
    return Outcome(kind, phase=death.phase, evidence=evidence)


def _reason(death: Death) -> Outcome | None:
    """What the log, or the memory at death, gives as the reason."""
    for find in (
        _device_gone,
        out_of_memory,
        _rpc_lost,
        _no_code_for_the_card,
        _said,
        smaller_buffer_failed_too,
        _nccl,
        _aborted_at_the_wall,
        _device_error,
        _killed_by_the_kernel,
        _load_ended_at_the_wall,
    ):
        if (outcome := find(death)) is not None:
            return outcome
    return None


def _device_gone(death: Death) -> Outcome | None:
    line = line_with(death.log, DEVICE_GONE)
    if line is None:
        return None
    vulkan = _VULKAN_LOST.search(death.log)
    device = current_device(death.log) if vulkan is None else vulkan[1]
    return Outcome(Kind.DEVICE_ERROR, phase=death.phase, device=device, evidence=line)


def _rpc_lost(death: Death) -> Outcome | None:
    line = line_with(death.log, RPC_LOST)
    if line is None:
        return None
    refused = _NOT_CONNECTED.search(death.log)
    device = None if refused is None else {**endpoints(death.log), **death.endpoints}.get(refused[1])
    return Outcome(Kind.RPC_LOST, phase=death.phase, device=device, evidence=line)


def _no_code_for_the_card(death: Death) -> Outcome | None:
    """A build without that card's architecture; the card stands on the next line."""
    line = line_with(death.log, _NO_CODE_FOR_CARD)
    if line is None:
        return None
    name = current_device(death.log)
    card = next((device for device in devices(death.log) if device.name == name), None)
    description = f", {card.description}" if card is not None and card.description else ""
    return Outcome(
        Kind.UNSUPPORTED,
        phase=death.phase,
        device=name,
        evidence=line if name is None else f"{line} ({name}{description})",
    )


def _said(death: Death) -> Outcome | None:
    """What the log names in so many words."""
    for kind, texts in SAID.items():
        if kind is Kind.DRAFT_UNAVAILABLE and is_up(death.log):
            continue  # it went on without
        line = line_with(death.log, texts)
        if line is not None:
            if texts is BAD_MODEL and _is_the_draft(death.log):
                return Outcome(Kind.DRAFT_UNAVAILABLE, phase=death.phase, evidence=line, inferred=True)
            return Outcome(kind, phase=death.phase, evidence=line)
    return None


def _is_the_draft(log: str) -> bool:
    """Whether the file that could not be read is that of the drafts, its last line being lost."""
    model, failed = _MODEL_FILE.search(log), _FILE_NOT_OPENED.search(log)
    if model is not None and failed is not None:
        return model[1] != failed[1]
    return "loading draft model" in log


def _nccl(death: Death) -> Outcome | None:
    """NCCL does not say that it had no memory; it allocates in the first decode, which is part of the load."""
    line = line_with(death.log, NCCL_WORDLESS)
    if line is None or not _aborted(death):
        return None
    device = death.fullest(NCCL_MIB)
    if device is None and (death.memory_is_known or death.phase is Phase.BENCHMARK):
        return None
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=Stage.RUNTIME,
        device=device or current_device(death.log),
        evidence=line if device is None else f"{line}, with {death.free_words(device)}",
        inferred=True,
    )


def _aborted_at_the_wall(death: Death) -> Outcome | None:
    """The CUDA pool and others abort without a word of memory: a full card is what is left as a witness."""
    device = death.fullest()
    if device is None or not _aborted(death):
        return None
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=Stage.RUNTIME,
        device=device,
        evidence=f"aborted with {death.free_words(device)}",
        inferred=True,
    )


def _device_error(death: Death) -> Outcome | None:
    line = line_with(death.log, DEVICE_ERROR)
    if line is None:
        return None
    return Outcome(Kind.DEVICE_ERROR, phase=death.phase, device=current_device(death.log), evidence=line)


def _killed_by_the_kernel(death: Death) -> Outcome | None:
    if death.exit_code != -SIGKILL or not death.killed_by_kernel:
        return None
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        stage=None if death.phase is Phase.LOAD else Stage.RUNTIME,
        device=HOST,
        evidence="ended by the kernel's out-of-memory killer (signal 9)",
        inferred=True,
    )


def _load_ended_at_the_wall(death: Death) -> Outcome | None:
    """An error exit in the middle of a load whose last lines are lost, with a full card."""
    device = death.fullest()
    reading = line_with(death.log, _MODEL_IS_READ) is not None
    if death.exit_code != 1 or death.phase is not Phase.LOAD or device is None or not reading:
        return None
    return Outcome(
        Kind.OUT_OF_MEMORY,
        phase=death.phase,
        device=device,
        evidence=f"the load ended with {death.free_words(device)}",
        inferred=True,
    )


def _aborted(death: Death) -> bool:
    if death.exit_code is None or death.exit_code > 0:  # a wrapper has a code of its own
        return _ABORT.search(death.log) is not None
    return death.exit_code == -SIGABRT


def _by_exit_code(death: Death) -> Outcome:
    code = death.exit_code
    if code in {-SIGTERM, -SIGINT, 0}:
        evidence = f"exit code {code}: ended by somebody else"
        return Outcome(Kind.STOPPED, phase=death.phase, evidence=evidence, inferred=True)
    if code in {-SIGILL, 127}:
        why = "SIGILL: built for another processor" if code == -SIGILL else "a library is missing"
        return Outcome(Kind.ENGINE_BROKEN, phase=death.phase, evidence=f"exit code {code}: {why}")
    asserted = line_with(death.log, _LAST_WORDS)
    last = last_line(death.log)
    rest = f"last line: {last}" if last else "its log is empty"
    how = "how it ended is not known" if code is None else f"exit code {code}"
    return Outcome(
        Kind.CRASHED, phase=death.phase, evidence=asserted or f"{how}; {rest}", inferred=code is None
    )
