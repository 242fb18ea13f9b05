"""Says why a value is refused, in the engine's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.support.fake_llama.options import Option

_ON = frozenset({"on", "enabled", "true", "1"})
_OFF = frozenset({"off", "disabled", "false", "0"})
_AUTO = frozenset({"auto", "-1"})
_INTEGER = re.compile(r"\s*[+-]?\d")  # std::stoi stops at what is no digit: 1.5 is 1
_REAL = re.compile(r"\s*[+-]?(\d|\.\d)")
_MAX_DEVICES = 16


def is_on(value: str) -> bool:
    return value in _ON


def is_off(value: str) -> bool:
    return value in _OFF


def leading_integer(text: str) -> int:
    """What std::stoi makes of a text that `complaint` let through; 0 for `auto` and the like."""
    match = re.match(r"\s*([+-]?\d+)", text)
    return int(match[1]) if match else 0


def complaint(option: Option, value: str, device_names: Collection[str]) -> str | None:
    """What the engine says of a value that it does not take; None if it takes it."""
    if option.hint.startswith("<dev1"):
        unknown = [name for name in value.split(",") if name not in {*device_names, "none"}]
        return f"invalid device: {unknown[0]}" if unknown else None
    for check in (_removed, _switch, _spec_types, _cache_type, _tensor_split, _layers, _choice, _number):
        words = check(option, value)
        if words is not None:
            return words or None
    return None


# Each check returns None for an option that is not its own, and "" for a value that is fine.


def _removed(option: Option, _value: str) -> str | None:
    if not option.removed:
        return None
    return re.sub(r"\s*\(env: \w+\)", "", option.description).replace("\n", " ")


def _switch(option: Option, value: str) -> str | None:
    if option.name not in ("flash-attn", "fit", "reasoning", "log-colors"):
        return None
    legal = _ON | _OFF | (_AUTO if "auto" in option.hint else frozenset())
    return "" if value in legal else f"error: unknown value for --{option.name}: '{value}'\n"


def _spec_types(option: Option, value: str) -> str | None:
    if option.name != "spec-type":
        return None
    unknown = [kind for kind in value.split(",") if kind not in option.hint.split(",")]
    return f"unknown speculative type: {unknown[0]}" if unknown else ""


def _cache_type(option: Option, value: str) -> str | None:
    allowed = re.search(r"allowed values: (.*)", option.description)
    if allowed is None:
        return None
    return "" if value in allowed[1].split(", ") else f"Unsupported cache type: {value}"


def _tensor_split(option: Option, value: str) -> str | None:
    if option.name != "tensor-split":
        return None
    parts = re.split(r"[,/]+", value)
    if len(parts) >= _MAX_DEVICES:
        return f"got {len(parts)} input configs, but system only has {_MAX_DEVICES} devices"
    return "" if all(_REAL.match(part) for part in parts) else "stof"


def _layers(option: Option, value: str) -> str | None:
    return "" if option.name in ("gpu-layers", "spec-draft-ngl") and value in ("auto", "all") else None


def _choice(option: Option, value: str) -> str | None:
    if option.hint.startswith("{"):
        legal = option.hint.strip("{}").split(",")
    elif option.hint in ("MODE", "TYPE") and option.bullets:
        legal = option.bullets
    else:
        return None
    more = ", must be one of: " + ", ".join(legal) if option.name == "spec-draft-sampling" else ""
    return "" if value in legal else f"invalid value{more}"


def _number(option: Option, value: str) -> str | None:
    if option.hint not in ("N", "P", "PORT", "INDEX"):
        return None
    if option.is_real_number:
        return "" if _REAL.match(value) else "stof"
    if not _INTEGER.match(value):
        return "stoi"
    refuses_negative = option.name in ("spec-draft-n-max", "spec-draft-n-min")
    return "invalid value" if refuses_negative and value.strip().startswith("-") else ""
