"""The engine's log: its levels, its line prefix and its switches."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.fake_llama.arguments import Arguments

ERROR, WARNING, INFO, TRACE = 1, 2, 3, 4
_EVERYTHING = 99
_STDERR = 2


class Log:
    """Writes lines as the engine does, each with one system call: several threads may log."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._verbosity = INFO
        self._prefix = self._timestamps = True
        self._files = [_STDERR]

    def configure(self, arguments: Arguments) -> None:
        """Takes over -lv, -v, --log-disable, --log-file, --log-prefix and --log-timestamps."""
        self._verbosity = arguments.integer("verbosity", INFO)
        if arguments.is_on("verbose", default=False):
            self._verbosity = _EVERYTHING
        if arguments.is_on("log-disable", default=False):
            self._verbosity = -1
        self._prefix = arguments.is_on("log-prefix", default=True)
        self._timestamps = arguments.is_on("log-timestamps", default=True)
        if path := arguments.get("log-file"):
            self._files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))

    @property
    def verbosity(self) -> int:
        return self._verbosity

    def trace(self, text: str) -> None:
        """The library's own lines: build 11434 shows them from -lv 4 on, and calls them I."""
        self._line("I", TRACE, text)

    def info(self, text: str) -> None:
        self._line("I", INFO, text)

    def warn(self, text: str) -> None:
        self._line("W", WARNING, text)

    def error(self, text: str) -> None:
        self._line("E", ERROR, text)

    def raw(self, text: str) -> None:
        """What is written past the log: asserts, argument errors."""
        self._write(text + "\n")

    def flood(self, mib: float) -> None:
        """Fills a pipe that nobody reads, and a disk."""
        line = "I load: printing all EOG tokens: " + "x" * 990 + "\n"
        for _ in range(round(mib * 1024)):
            self._write(line)

    def _line(self, letter: str, level: int, text: str) -> None:
        if level <= self._verbosity:
            self._write(self._stamp(letter) + text + "\n")

    def _stamp(self, letter: str) -> str:
        if not self._prefix:
            return ""
        if not self._timestamps:
            return f"{letter} "
        us = int((time.monotonic() - self._start_s) * 1e6)
        minutes, seconds = us // 60_000_000, us // 1_000_000 % 60
        return f"{minutes}.{seconds:02}.{us // 1000 % 1000:03}.{us % 1000:03} {letter} "

    def _write(self, text: str) -> None:
        data = text.encode()
        for file in self._files:
            rest = data
            with contextlib.suppress(
                OSError
            ):  # a full disk stops no engine: nobody looks whether a line got out
                while rest:
                    rest = rest[os.write(file, rest) :]
