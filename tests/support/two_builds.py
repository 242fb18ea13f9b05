"""Two fake engines side by side, each with its own build, rules and events: one before an upgrade, one after it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from tests.support.fake_engine import FakeEngine, fake_server_path

if TYPE_CHECKING:
    from pathlib import Path


class FakeBuild(FakeEngine):
    """A fake engine with a program of its own, which needs nothing of the environment.

    Args:
        folder: Where the program, its rules and its events lie; it is made.
        build: Whose help text it shows.
    """

    def __init__(self, folder: Path, *, build: str = "11434") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, build=build)
        self.path = folder / "llama-server"
        self.stamp(build)

    def stamp(self, words: str) -> None:
        """Write the program; other words make it another binary that does the same."""
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._variables.items())
        self.path.write_text(
            f"#!/bin/sh\n# {words}\nexport {variables}\n"
            f'exec {shlex.quote(sys.executable)} {shlex.quote(str(fake_server_path()))} "$@"\n',
            encoding="utf-8",
        )
        self.path.chmod(0o755)
