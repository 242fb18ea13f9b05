"""Programs of the system that tests need beside what `make` installs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

#: Debian's package of each.
_PACKAGES = {
    "bash": "bash",
    "dash": "dash",
    "docker-compose": "docker-compose",
    "shellcheck": "shellcheck",
    "systemd-analyze": "systemd",
}


def system_tool(name: str) -> Path:
    """Its path. Fails, never skips: what nobody has opened was not tested."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(
            f"{name} is missing; on Debian and Ubuntu: apt-get install {_PACKAGES[name]}", pytrace=False
        )
    return Path(found)
