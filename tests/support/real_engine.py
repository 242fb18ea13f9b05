"""Starts the real llama-server on the small model where a test compares the fake with it."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.fake_engine import DEADLINE_S, FakeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving_for_real(program: Path, model: Path, log_path: Path, *options: str) -> Iterator[FakeProcess]:
    """Ready to answer, on one core and no device; killed at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [program, "-m", model, "--port", str(port), "-t", "1", "--device", "none", *options],
            env={"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": os.devnull},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        server = FakeProcess(process, log_path)
        server.wait_for_log("listening on http")
        yield server
    finally:
        process.kill()
        process.wait(DEADLINE_S)
