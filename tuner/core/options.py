"""The options that a candidate can have: llama-server's long flags, in the order of a command line.

Uppercase names are environment variables of the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

Value = str | int | float | bool | tuple[int, ...] | tuple[str, ...]
"""What an option can be set to; a tuple of numbers is a tensor split, a tuple of names a list of devices."""


class ValueType(StrEnum):
    """How an option's value is written."""

    TEXT = "text"
    INTEGER = "whole number"
    NUMBER = "number"
    SWITCH = "true or false"
    DEVICES = "list of device names"
    SPLIT = "list of whole numbers"
    EXPERTS = "list of layers a device (CPU:0-4)"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name and how its value is written."""

    name: str
    value_type: ValueType


_T, _I, _N, _S = ValueType.TEXT, ValueType.INTEGER, ValueType.NUMBER, ValueType.SWITCH

#: How the cards of tensor mode add up what they computed: by NCCL where this is not set.
ALLREDUCE = "GGML_CUDA_ALLREDUCE"

#: Everything that a search space may fix or vary.
OPTIONS: dict[str, Option] = {
    name: Option(name, value_type)
    for name, value_type in (
        ("device", ValueType.DEVICES),
        ("split-mode", _T),
        ("tensor-split", ValueType.SPLIT),
        ("gpu-layers", _I),
        ("override-tensor", ValueType.EXPERTS),
        ("cpu-moe", _S),
        ("n-cpu-moe", _I),
        ("n-cpu-ffn", _I),
        ("fit", _T),
        ("ctx-size", _I),
        ("parallel", _I),
        ("kv-unified", _S),
        ("batch-size", _I),
        ("ubatch-size", _I),
        ("flash-attn", _T),
        ("cache-type-k", _T),
        ("cache-type-v", _T),
        ("kv-offload", _S),
        ("swa-full", _S),
        ("cache-ram", _I),
        ("cache-reuse", _I),
        ("ctx-checkpoints", _I),
        ("load-mode", _T),
        ("no-host", _S),
        ("repack", _S),
        ("op-offload", _S),
        ("threads", _I),
        ("threads-batch", _I),
        ("poll", _I),
        ("prio", _I),
        ("backend-sampling", _S),
        ("spec-type", _T),
        ("spec-draft-model", _T),
        ("spec-draft-n-max", _I),
        ("spec-draft-n-min", _I),
        ("spec-draft-p-min", _N),
        ("spec-draft-sampling", _T),
        ("spec-draft-backend-sampling", _S),
        ("spec-draft-device", _T),
        ("spec-draft-ngl", _I),
        ("spec-draft-type-k", _T),
        ("spec-draft-type-v", _T),
        ("spec-ngram-mod-n-min", _I),
        ("spec-ngram-mod-n-max", _I),
        ("spec-ngram-mod-n-match", _I),
    )
}

#: What a candidate has where neither the space nor the user says otherwise. Always passed: defaults drift
#: between builds (n-max 16 to 3), and an option that is left out can come from a config file.
BASE_OPTIONS: dict[str, Value] = {
    "split-mode": "layer",
    "gpu-layers": 999,  # every layer of every model
    "fit": "off",  # let an impossible split fail; do not let the engine shrink it
    "parallel": 1,
    "kv-unified": False,
    "batch-size": 2048,
    "ubatch-size": 512,
    "flash-attn": "on",
    "cache-type-k": "f16",
    "cache-type-v": "f16",
    "spec-type": "none",
}

#: Options that put tensors elsewhere than their layer: patterns of names, and shorthands of such patterns.
OVERRIDES = ("override-tensor", "cpu-moe", "n-cpu-moe", "n-cpu-ffn")

#: Options that only mean something while drafts are on.
DRAFT_OPTIONS = frozenset(name for name in OPTIONS if name.startswith("spec-") and name != "spec-type")

#: Types of a KV cache and the bits of an element, scales included (ggml-common.h).
KV_BITS: dict[str, float] = {
    "f32": 32.0,
    "f16": 16.0,
    "bf16": 16.0,
    "q8_0": 8.5,
    "q5_1": 6.0,
    "q5_0": 5.5,
    "q4_1": 5.0,
    "iq4_nl": 4.5,
    "q4_0": 4.5,
}

#: Kinds of drafts that come from a model of their own.
NEEDS_DRAFT_MODEL = frozenset({"draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"})

_FOREIGN = re.compile(r"--[a-z0-9][a-z0-9-]*")
_ENVIRONMENT = re.compile(r"(GGML|CUDA|NCCL)_[A-Z0-9_]+")


def is_foreign(name: str) -> bool:
    """Whether an option's name is a flag that is none of ours, spelled as a fork's help lists it: `--fused-moe`."""
    return _FOREIGN.fullmatch(name) is not None


def is_environment(name: str) -> bool:
    """Whether an option's name is an environment variable that the server reads."""
    return _ENVIRONMENT.fullmatch(name) is not None


def option_names() -> tuple[str, ...]:
    """All names, in the order of a command line."""
    return tuple(OPTIONS)
