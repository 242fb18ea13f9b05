"""The options that a server runs with: those of a command, and the engine's own where it says nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tuner.core.memory.overrides import expert_overrides
from tuner.core.options import ALLREDUCE, OPTIONS, OVERRIDES, ValueType
from tuner.engine.command_line import UserFlag
from tuner.engine.findings.asked import DEFAULT_SLOTS
from tuner.engine.user_command import option_value
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.core.model import ModelFile
    from tuner.core.options import Value
    from tuner.engine.findings.asked import Asked

#: Options that are no part of a search space and decide where things lie all the same.
_COUNTS = ("main-gpu", "n-cpu-moe", "n-cpu-ffn")
#: Whole numbers of a space that a server reads up to the first other character.
_NUMBERS = ("gpu-layers", "ctx-size", "parallel", "ubatch-size", "batch-size")
_EVERY_LAYER = 999


def effective_options(asked: Asked, model: ModelFile) -> dict[str, Value]:
    """By canonical name; a value that cannot be read is left out, since it is a finding of its own."""
    options: dict[str, Value] = {
        "split-mode": "layer",
        "kv-unified": False,
        "flash-attn": "auto",
        "cache-type-k": "f16",
        "cache-type-v": "f16",
        **_said(asked),
        **_numbers(asked, model),
        "spec-type": ",".join(asked.spec_types) or "none",
    }
    if not asked.has("parallel") or (asked.number("parallel") or 0) < 1:
        options |= {"parallel": DEFAULT_SLOTS, "kv-unified": True}  # the cache is shared, whatever is said
    if asked.is_on("cpu-moe"):
        options["cpu-moe"] = True
    options |= _overrides(asked)
    reduce = asked.command.environment.get(ALLREDUCE)
    if reduce:
        options[ALLREDUCE] = reduce
    return options


def _overrides(asked: Asked) -> dict[str, Value]:
    """Patterns of tensors, all that there are in the engine's order: the first that matches counts.

    The shorthands are patterns as well, and are written out where they stand beside others.
    """
    flags = _flags(asked)
    flags.sort(key=lambda flag: flag in asked.command.flags)  # the engine goes through its variables first
    found: list[str] = []
    for flag in flags:
        if flag.name == "override-tensor":
            found += [flag.value] if flag.value else []
        elif flag.name in OVERRIDES:
            is_on = asked.is_on("cpu-moe") if flag.name == "cpu-moe" else asked.number(flag.name)
            found += map(str, expert_overrides(flag.name, max(int(is_on or 0), 0)))
    if not asked.value("override-tensor"):
        return {}
    return {"override-tensor": ",".join(found), "cpu-moe": False, "n-cpu-moe": 0, "n-cpu-ffn": 0}


def fit_decides(asked: Asked) -> bool:
    """Whether the engine's own `--fit` may change the command: it is on, and neither split nor layers are said."""
    fixed = any(asked.has(name) for name in ("gpu-layers", "tensor-split", "override-tensor", "n-cpu-moe"))
    known = asked.help_text.option("fit") is not None
    return known and asked.value("fit") != "off" and not fixed and asked.split_mode == "layer"


def _flags(asked: Asked) -> list[UserFlag]:
    """The command's flags, after them its variables that set an option which has no flag there."""
    command = asked.command
    variables = [
        UserFlag((f"--{name}", command.environment[variable]), name)
        for name, variable in asked.variables.items()
        if not command.has(name)
    ]
    return [*command.flags, *variables]


def _said(asked: Asked) -> dict[str, Value]:
    """The options of a search space that the command sets."""
    options: dict[str, Value] = {}
    for flag in _flags(asked):
        name = flag.name
        if name not in OPTIONS or (flag.value is None and OPTIONS[name].value_type is not ValueType.SWITCH):
            continue
        with contextlib.suppress(UsageError):
            options[name] = option_value(flag)
    return options


def _numbers(asked: Asked, model: ModelFile) -> dict[str, Value]:
    """Counts as the server takes them: `-ngl -1`, `auto` and `all` are all layers, `-c 0` is the model's own."""
    said = {name: asked.number(name) for name in (*_NUMBERS, *_COUNTS)}
    found: dict[str, Value] = {"batch-size": 2048, "ubatch-size": 512, "parallel": DEFAULT_SLOTS}
    found |= {name: count for name, count in said.items() if count is not None}
    layers, context = said["gpu-layers"], said["ctx-size"]
    found["gpu-layers"] = _EVERY_LAYER if layers is None or layers < 0 else layers
    found["ctx-size"] = model.n_ctx_train if context is None or context <= 0 else context
    return found
