"""Starts the driver as a fork of a process that has everything imported: a start costs a third of a cold one."""

from __future__ import annotations

import os
import time
from multiprocessing.context import ForkServerContext
from typing import TYPE_CHECKING

from tests.chaos import driver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

_CONTEXT = ForkServerContext()
_CONTEXT.set_forkserver_preload(["tests.chaos.driver", "tuner.cli.tuning", "alembic.command"])
_CHUNK_BYTES = 64 * 1024


def run_driver(
    words: Sequence[str], environment: Mapping[str, str], *, log_path: Path, deadline_s: float
) -> tuple[int, str]:
    """Run it to its end.

    Args:
        words: Of the command, behind `tuner`.
        environment: All of it.
        log_path: What it prints is appended there.
        deadline_s: A run that takes longer hangs.

    Returns:
        How it ended, negative for a signal, and what it said on standard error.

    Raises:
        TimeoutError: The deadline has passed; it is killed.
    """
    end_s = time.monotonic() + deadline_s
    reader, writer = _CONTEXT.Pipe(duplex=False)
    with reader:
        process = _CONTEXT.Process(
            target=driver.run_as, args=(list(words), dict(environment), log_path, writer)
        )
        process.start()
        writer.close()
        said = _read(reader, end_s)
        process.join(max(end_s - time.monotonic(), 0.0))
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"tuner {' '.join(words)} did not end within {deadline_s:.0f} s: {said}")
    code = process.exitcode
    process.close()
    return code, said


def _read(reader: Connection, end_s: float) -> str:
    chunks = []
    while reader.poll(max(end_s - time.monotonic(), 0.0)) and (
        chunk := os.read(reader.fileno(), _CHUNK_BYTES)
    ):
        chunks.append(chunk)
    return b"".join(chunks).decode(errors="replace")
