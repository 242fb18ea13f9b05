"""Tells a test what was launched and asked: one JSON line an event, appended to the file FAKE_EVENTS."""

from __future__ import annotations

import json
import os
from pathlib import Path


class Events:
    """Appends each event with one write: several servers may share the file."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def add(self, event: str, **facts: object) -> None:
        if self._path is None:
            return
        line = json.dumps({"event": event, "pid": os.getpid(), **facts}) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def count(self, event: str, **facts: object) -> int:
        """How often that was written so far, by whichever server."""
        if self._path is None or not Path(self._path).exists():
            return 0
        wanted = {"event": event, **facts}
        found = (json.loads(line) for line in Path(self._path).read_text().splitlines())
        return sum(all(one.get(name) == fact for name, fact in wanted.items()) for one in found)
