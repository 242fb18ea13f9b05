"""What to change first about a server that failed or did otherwise than asked: concrete flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.core.diagnosis.devices import HOST, devices
from tuner.core.diagnosis.log_lines import line_with
from tuner.core.diagnosis.memory import META_ASSERT
from tuner.core.diagnosis.texts import NCCL_WORDLESS
from tuner.core.outcome import Kind, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.core.diagnosis.devices import LogDevice
    from tuner.core.outcome import Outcome

_SMALLER_CACHE = "-ctk q8_0 -ctv q8_0 (with -fa on): the KV cache takes half"
_SHORTER = "-c less: the KV cache grows with it, or -np 1 for one user"
_SMALLER_BATCH = "-ub 256 or 128 (512 is usual): compute buffers shrink with it, prompts get slower"
_FEWER_DRAFTS = "--spec-draft-n-max less: on hybrid models each step keeps a state of its own"
_FEWER_LAYERS = "fewer -ngl, or --n-cpu-moe N for a mixture of experts: slow, so last"
_OTHER_MODEL = "a smaller quantisation of the model"

_ALL_PAIRS = "build llama.cpp with all pairs: cmake -B build -DGGML_CUDA=ON -DGGML_CUDA_FA_ALL_QUANTS=ON"

_BY_STAGE: Mapping[Stage | None, tuple[str, ...]] = {
    Stage.WEIGHTS: (_FEWER_LAYERS, _OTHER_MODEL),
    Stage.KV: (_SMALLER_CACHE, _SHORTER),
    Stage.RECURRENT: (_FEWER_DRAFTS, "-np 1: each slot keeps a state of its own"),
    Stage.COMPUTE: (_SMALLER_BATCH, _SMALLER_CACHE, _SHORTER),
    Stage.DRAFT: (
        "-c less: the draft has a KV cache for the whole of it",
        "-ctkd q8_0 -ctvd q8_0: the draft's cache is f16 unless told otherwise",
        _FEWER_DRAFTS,
        "--spec-type none: without drafts",
    ),
    Stage.OUTPUT: ("-np less: there is an output row for each slot", _SMALLER_BATCH),
    Stage.RUNTIME: (_SMALLER_BATCH, _SMALLER_CACHE, _SHORTER),
    None: (_SHORTER, _SMALLER_CACHE, _SMALLER_BATCH),
}

_FLAG = re.compile(r"""(?:argument:? |variable )"?(-{1,2}[\w-]+|LLAMA_\w+)"?""")
_REMOVED = re.compile(r"has been removed\. [Uu]se (.+)")
_VALUE = re.compile(r"(?:invalid device|Unsupported cache type|unknown speculative type): *(\S+)")
_ENDPOINT = re.compile(r"Failed to connect to (\S+:\d+)")
_PORT = re.compile(r"port: (\d+)")
_CACHE_PAIR = re.compile(r"K/V types (\w+)-(\w+)")


def advice(outcome: Outcome, log: str) -> tuple[str, ...]:
    """What to change, the first thing first; nothing where nothing went wrong."""
    give = _BY_KIND.get(outcome.kind)
    return () if give is None else tuple(give(outcome, log))


def _out_of_memory(outcome: Outcome, log: str) -> list[str]:
    if outcome.device == HOST or "bad_alloc" in outcome.evidence:
        return [
            "it is host memory (RAM) that ran out: -c less, or fewer layers and experts left on the CPU",
            "close what else holds memory, or add swap; --cache-ram 0 keeps no prompts in RAM",
        ]
    if line_with(log, NCCL_WORDLESS) is not None:
        return [
            "GGML_CUDA_ALLREDUCE=internal in the environment: NCCL wants about 750 MiB on every card",
            _less_on(outcome.device, log),
            *_BY_STAGE[Stage.RUNTIME],
        ]
    tensor = META_ASSERT.search(log) is not None or "Meta()" in log
    where = [_less_on(outcome.device, log)]
    if tensor:
        where.append("-sm layer: it needs less, and any whole number of layers can go to a card")
    return [*where, *_BY_STAGE[outcome.stage]]


def _less_on(device: str | None, log: str) -> str:
    """The split, with the place of the device in it."""
    if device is None:
        return "less in -ts for the device that is full"
    names = [each.name for each in devices(log)]
    if device not in names or len(names) < 2:
        return f"less on {device}: a smaller number for it in -ts, or another card beside it"
    return f"less on {device}: a smaller number {names.index(device) + 1} of {len(names)} in -ts"


def _unsupported(outcome: Outcome, log: str) -> list[str]:
    evidence = outcome.evidence
    if "kernel image" in evidence or "device function" in evidence or "device code" in evidence:
        return [_for_these_cards(log, outcome.device), f"or leave {outcome.device or 'the card'} out: -dev"]
    for text, what in _REFUSALS:
        if text in evidence:
            return [what]
    return ["leave out what the line names: this engine cannot do it with this model"]


_REFUSALS = (
    ("tensor mode over", "one back end for all cards (Vulkan drives both makers'), or -sm layer"),
    ("split buffers", "-sm layer or -sm tensor: -sm row is gone from CUDA since build 9890"),
    ("SPLIT_MODE_TENSOR requires flash_attn", "-fa on, or -sm layer"),
    ("lash", "-fa on, or -ctv f16: a quantised V cache needs flash attention"),
    ("KV cache quantization", "-ctk f16 -ctv f16, or llama.cpp from build 10001 on"),
    ("does not divide", "-ctk f16 -ctv f16, or a type with another block size"),
    ("different K", "the same type for -ctk and -ctv"),
    ("not implemented for architecture", "-sm layer: tensor mode does not know this architecture"),
    ("that cannot run the operation", "leave a card out of -dev (two work where three do not), or -sm layer"),
    ("needs >= 1 devices", "-dev with the cards' names; `llama-server --list-devices` prints them"),
)


def _for_these_cards(log: str, failed: str | None) -> str:
    """How to build for every card that is there."""
    cards = [card for card in devices(log) if card.back_end in {"CUDA", "ROCm"}]
    if any(card.back_end == "ROCm" for card in cards) or (failed or "").startswith("ROCm"):
        targets = _architectures(cards) or "gfx1100"
        return f"build llama.cpp for this card: cmake -B build -DGGML_HIP=ON -DGPU_TARGETS={targets!r}"
    return (
        "build llama.cpp for this card: cmake -B build -DGGML_CUDA=ON "
        f"-DCMAKE_CUDA_ARCHITECTURES={_architectures(cards) or 'native'!r}"
    )


def _architectures(cards: list[LogDevice]) -> str:
    found = sorted({card.architecture for card in cards if card.architecture is not None})
    return ";".join(found)


def _bad_flag(outcome: Outcome, log: str) -> list[str]:
    named = _FLAG.search(outcome.evidence) or _FLAG.search(log)
    flag = "the flag that the line names" if named is None else named[1]
    if (removed := _REMOVED.search(outcome.evidence)) is not None:
        return [f"{flag} was removed from llama.cpp: use {removed[1]}"]
    if (value := _VALUE.search(outcome.evidence)) is not None:
        return [
            f"another value than {value[1]} for {flag}: `llama-server --help` lists what this build takes"
        ]
    if "error while handling" in outcome.evidence:
        return [f"another value for {flag}: `llama-server --help` says what this build takes"]
    return [f"look up {flag} in `llama-server --help`: flags come and go between builds"]


def _draft(outcome: Outcome, _: str) -> list[str]:
    for text, what in (
        ("MTP layers", "--spec-type none or ngram-mod: this file has no MTP layers; or a file that has them"),
        ("vocabs", "a draft model with the same vocabulary, from the same family"),
        ("vocab type", "a draft model with the same vocabulary, from the same family"),
        ("draft context", "--spec-draft-model FILE with --spec-type draft-simple"),
        ("draft model is not", "the --spec-type that this draft model was made for"),
        ("no implementations", "--spec-type draft-simple: -md alone loads the draft and never uses it"),
        (
            "failed to load draft model",
            "the path after --spec-draft-model (-md): is the file there and whole?",
        ),
        ("GGUF", "the path after --spec-draft-model (-md): is the file there and whole?"),
    ):
        if text in outcome.evidence:
            return [what]
    return ["--spec-type none, or another type than was asked for"]


def _port(outcome: Outcome, _: str) -> list[str]:
    port = _PORT.search(outcome.evidence)
    which = "the port" if port is None else f"port {port[1]}"
    return [f"{which} is taken: another --port, or end the server that has it"]


def _bad_model(outcome: Outcome, _: str) -> list[str]:
    if "unknown model architecture" in outcome.evidence:
        return ["a newer llama.cpp: this build does not know the model's architecture"]
    return ["the path after -m: is the file there, whole (compare its size), and a GGUF? Download it again"]


def _rpc(outcome: Outcome, log: str) -> list[str]:
    if "mismatch" in outcome.evidence or "handshake" in outcome.evidence:
        return ["the same llama.cpp build on both machines"]
    refused = _ENDPOINT.search(log)
    where = "the RPC server" if refused is None else f"the RPC server at {refused[1]}"
    return [
        f"start {where} again; its own log says why it ended",
        "if it ran out of memory there: less on that device in -ts, -ctk q8_0 -ctv q8_0, or -c less",
    ]


def _device_error(outcome: Outcome, log: str) -> list[str]:
    card = outcome.device or "the card"
    gone = any(text in outcome.evidence for text in ("lost", "bus", "Xid"))
    first = (
        f"{card} needs its driver reloaded or a restart: `dmesg | grep -i xid` says why; look at power and riser"
        if gone
        else f"the same again; if it stays, look at {card} with nvidia-smi -q and dmesg"
    )
    found = [first]
    if "NCCL" in outcome.evidence or line_with(log, NCCL_WORDLESS) is not None:
        found.append("GGML_CUDA_ALLREDUCE=internal in the environment: without NCCL")
    if "launch timed out" in outcome.evidence:
        found.append("a card without a screen: the desktop's watchdog ended the kernel; -ub less is shorter")
    if not gone:
        found += ["without GGML_CUDA_P2P, where it is set: it corrupts on some boards", "-sm layer"]
    return found


def _crashed(outcome: Outcome, log: str) -> list[str]:
    found = []
    if outcome.inferred:
        found.append("give --exit-code (what `echo $?` printed) and --free-mib: the log alone does not say")
    if "-9" in outcome.evidence:
        found.append("`dmesg | grep -i oom`: if the kernel ended it, host memory (RAM) ran out: -c less")
    if "Meta()" in log or "SPLIT_MODE_TENSOR" in log or "ggml-backend-meta" in log:
        found.append("-sm layer: tensor mode is experimental")
    found.append("-lv 4 for a log that says more, and --spec-type none to leave drafts out")
    return found


def _degraded(outcome: Outcome, _: str) -> list[str]:
    line = outcome.evidence
    if (pair := _CACHE_PAIR.search(line)) is not None:
        return [
            "-ctk q8_0 -ctv q8_0, q4_0 with q4_0, or f16: pairs that every build has",
            f"{_ALL_PAIRS} (or {pair[1]}-{pair[2]} in GGML_CUDA_FA_QUANTS)",
        ]
    if "converting K and V" in line:
        return [_ALL_PAIRS]
    if outcome.inferred:
        return [
            f"inferred: memory, one step from the wall; {outcome.device or 'the card'} had no room for the layer",
            "-c a little less, -ub less, or --spec-draft-n-max one less",
            "-ts with one layer less for that card",
        ]
    if "pipeline parallelism" in line:
        return [
            "-ub less, or one layer less on the full card in -ts: then both copies of the buffer fit",
            "-b as small as -ub: without several batches in flight there is nothing to lose",
        ]
    return [
        "-fa on: it fails instead of going on without",
        "-ctk q8_0 -ctv q8_0 or f16: types that have flash attention on every card",
    ]


def _not_as_asked(outcome: Outcome, _: str) -> list[str]:
    if "context size reduced" in outcome.evidence or "slot context" in outcome.evidence:
        return ["-c with what you need and -fit off: then it fails instead of shrinking", _SMALLER_CACHE]
    if "failed to initialize" in outcome.evidence:
        return ["the driver: `nvidia-smi` (or rocminfo) has to work first; then --list-devices"]
    return [
        "a llama-server with a GPU back end, and -dev: `llama-server --list-devices` has to show the cards"
    ]


def _engine_broken(outcome: Outcome, _: str) -> list[str]:
    if "SIGILL" in outcome.evidence or "Illegal instruction" in outcome.evidence:
        return ["build llama.cpp on this machine, or with -DGGML_NATIVE=OFF: the binary is for another CPU"]
    return ["`ldd llama-server` names the library that is missing; LD_LIBRARY_PATH or another build"]


def _stopped(outcome: Outcome, _: str) -> list[str]:
    return ["nothing: somebody stopped it"] if outcome.inferred else []


_BY_KIND: Mapping[Kind, Callable[[Outcome, str], list[str]]] = {
    Kind.OUT_OF_MEMORY: _out_of_memory,
    Kind.UNSUPPORTED: _unsupported,
    Kind.BAD_FLAG: _bad_flag,
    Kind.DRAFT_UNAVAILABLE: _draft,
    Kind.PORT_IN_USE: _port,
    Kind.BAD_MODEL: _bad_model,
    Kind.RPC_LOST: _rpc,
    Kind.DEVICE_ERROR: _device_error,
    Kind.CRASHED: _crashed,
    Kind.DEGRADED: _degraded,
    Kind.NOT_AS_ASKED: _not_as_asked,
    Kind.ENGINE_BROKEN: _engine_broken,
    Kind.STOPPED: _stopped,
}
