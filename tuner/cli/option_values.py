"""Options of the command line that are written in short forms: durations, sizes, lists by device."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.errors import RigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNIT_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")
LEAST_LEASE_S = 2.0
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)([kK]?)")


def duration_s(text: str, option: str = "--budget") -> float:
    """Seconds of `8h`, `90m`, `1h30m`, `45s`.

    Args:
        text: As typed.
        option: Whose value it is.

    Raises:
        UsageError: It is no duration above 0.
    """
    parts = _DURATION.findall(text.strip())
    if not parts or _DURATION.sub("", text).strip():
        raise UsageError(f"{option}: {text!r} is no duration; write 8h, 90m, 1h30m or 45s")
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if seconds <= 0:
        raise UsageError(f"{option}: must be above 0")
    return seconds


def lease_of(text: str) -> float:
    """Seconds of a lease; a shorter one would end with every hiccup of a network.

    Raises:
        UsageError: It is no duration, or too short.
    """
    seconds = duration_s(text, "--lease")
    if seconds < LEAST_LEASE_S:
        raise UsageError(f"--lease: must be at least {LEAST_LEASE_S:g}s, got {text}")
    return seconds


def tokens(text: str, option: str = "--context") -> int:
    """Tokens of `16384` or `16k` (1k is 1,024).

    Args:
        text: As typed.
        option: Whose value it is.

    Raises:
        UsageError: It is no number of tokens above 0.
    """
    match = _TOKENS.fullmatch(text.strip())
    count = round(float(match[1]) * (1024 if match[2] else 1)) if match is not None else 0
    if count <= 0:
        raise UsageError(f"{option}: {text!r} is no number of tokens; write 16384 or 16k")
    return count


def by_device(option: str, text: str, names: Sequence[str]) -> dict[str, int]:
    """MiB by device name out of `0=2048,CUDA1=256`: an index counts in the order of the devices.

    Raises:
        UsageError: It is not of that form.
        RigError: There is no such device.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        where, sign, amount = part.strip().partition("=")
        if not sign or not amount.isdecimal():
            raise UsageError(
                f"{option}: {part.strip()!r} is not understood; write DEVICE=MIB, such as 0=2048,1=256"
            )
        found[device_name(option, where, names)] = int(amount)
    return found


def device_name(option: str, word: str, names: Sequence[str]) -> str:
    """A device's name out of a name or an index.

    Raises:
        RigError: There is no such device.
    """
    if word in names:
        return word
    if word.isdecimal() and int(word) < len(names):
        return names[int(word)]
    raise RigError(
        f"{option}: there is no device {word!r}; this llama-server sees {', '.join(names) or 'none'}"
    )
