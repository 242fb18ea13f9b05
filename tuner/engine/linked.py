"""Which libraries a program or library would load, as the system's own `ldd` finds them."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TIMEOUT_S = 30.0
_FOUND = re.compile(r"=> (\S+) \(0x")
_MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)


def linked_libraries(path: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Paths of the libraries that are found; none where there is no `ldd`."""
    return tuple(_FOUND.findall(_ldd(path, environment)))


def missing_libraries(path: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the libraries that are not found; none where there is no `ldd`."""
    return tuple(_MISSING.findall(_ldd(path, environment)))


def _ldd(path: Path, environment: Mapping[str, str]) -> str:
    try:
        return subprocess.run(
            ["ldd", str(path)],  # noqa: S607 - wherever this system keeps it
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
