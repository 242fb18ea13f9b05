"""Reads best.json over and over while somebody writes it: at every moment it has to be whole, or not there."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Self

import jsonschema

from tuner.report.best import check_best

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_EVERY_S = 0.005
_STOP_DEADLINE_S = 5.0


class BestReader:
    """A reader in a thread of its own, for as long as it is entered.

    Attributes:
        torn: What it met that was no sound best.json; empty is good.
    """

    def __init__(self, path: Path) -> None:
        self.torn: list[str] = []
        self._path = path
        self._seen: object = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="best-reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(_STOP_DEADLINE_S)
        self._look()  # what a death has left counts most

    def _read_on(self) -> None:
        while not self._done.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        try:
            status = self._path.stat()
            now = (status.st_ino, status.st_mtime_ns, status.st_size)
            if now == self._seen:
                return
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        self._seen = now
        try:
            check_best(json.loads(text))
        except (ValueError, jsonschema.ValidationError) as error:
            self.torn.append(f"{self._path} is no sound best.json: {error}")
