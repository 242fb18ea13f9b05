"""A server's log on disk, kept from growing without end: its head and its tail stay.

The server writes to the file itself, in append mode, so that nothing has to drain a pipe. A thread looks at
the file's size now and then; where it is too large, the tail is moved up behind the head. A line that is
written in that very moment may be lost.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, BinaryIO, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

MIB = 2**20
#: A log beyond this is cut down to its head and tail. One load at `-lv 4` prints about 20 KiB.
CAP_BYTES = 16 * MIB
KEPT_BYTES = MIB
LOOK_EVERY_S = 0.25
#: A disk that hangs does not hang the run.
STOP_DEADLINE_S = 2.0


class CappedLog:
    """The log of one server; entered while the server runs.

    Attributes:
        path: Of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left_out_bytes = 0
        # the middle goes in several steps: whoever reads the file sees it before them or after them
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="log-cap", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(STOP_DEADLINE_S)
        if not self._thread.is_alive():
            self._cut()

    def open(self) -> BinaryIO:
        """A new, empty file for the server to append to."""
        self.path.write_bytes(b"")
        return self.path.open("ab")

    def size(self) -> int:
        """Bytes that the server has written so far: that they change is a sign of life."""
        with self._lock:
            return self.path.stat().st_size + self._left_out_bytes

    def text(self) -> str:
        """What there is of it."""
        with self._lock:
            return self.path.read_text(encoding="utf-8", errors="replace")

    def _watch(self) -> None:
        while not self._done.wait(LOOK_EVERY_S):
            self._cut()

    def _cut(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self.path.stat().st_size <= CAP_BYTES:
                return
            with self.path.open("r+b") as file:
                start = file.seek(-KEPT_BYTES, 2)
                tail = file.read()
                self._left_out_bytes += start - KEPT_BYTES
                mark = f"\n[{self._left_out_bytes / MIB:.0f} MiB of log left out here]\n"
                # over what is there: the file is never empty, and a full disk has room for it
                file.seek(KEPT_BYTES)
                file.write(mark.encode() + tail)
                end = file.tell()
                file.seek(start + len(tail))
                came_meanwhile = file.read()
                file.seek(end)
                file.write(came_meanwhile)
                file.truncate()
