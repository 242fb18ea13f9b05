"""Runs pip for minutes, aloud: its output goes to a log, and a sign of life to the terminal."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

PROGRESS_EVERY_S = 30.0
BUILD_DEADLINE_S = 3600.0
KILL_DEADLINE_S = 20.0
LOG_TAIL_LINES = 30


class EngineSetupError(Exception):
    """The engine cannot be installed; the message says why and where to read on."""


def pip_install(arguments: Sequence[str], *, env: Mapping[str, str], lock: IO[str]) -> None:
    """Runs `pip install`, writing its output to the log and a sign of life to the terminal.

    Raises:
        EngineSetupError: pip failed or took too long; the message ends with the log's tail.
    """
    path = log_path()
    print(f"engine: pip writes to {path}")
    started = time.monotonic()
    with path.open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pip", "install", "--progress-bar=off", "--verbose", *arguments],
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # the compilers are stopped with it
            pass_fds=[lock.fileno()],  # while a build goes on nobody else starts one, even if this was killed
        )
        try:
            _wait_aloud(process, path)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=KILL_DEADLINE_S)
    if process.returncode != 0:
        elapsed_s = time.monotonic() - started
        _fail(path, f"pip ended with code {process.returncode} after {minutes(elapsed_s)}")


def _wait_aloud(process: subprocess.Popen[bytes], path: Path) -> None:
    started = time.monotonic()
    while time.monotonic() - started < BUILD_DEADLINE_S:
        try:
            process.wait(timeout=PROGRESS_EVERY_S)
        except subprocess.TimeoutExpired:
            print(f"engine: {minutes(time.monotonic() - started)} gone; {_last_line(path)}")
        else:
            return
    _fail(path, f"pip did not end within {minutes(BUILD_DEADLINE_S)}")


def _fail(path: Path, what: str) -> NoReturn:
    tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
    raise EngineSetupError("\n".join([f"{what}; the end of {path}:", *tail]))


def log_path() -> Path:
    """Returns where pip's output goes."""
    return Path(sys.prefix) / "engine-setup.log"


def _last_line(path: Path) -> str:
    """Returns the last thing that the build said, short enough for one line."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip()[:80] for line in reversed(lines) if line.strip()), "nothing written yet")


def minutes(duration_s: float) -> str:
    """Returns a duration as people read it."""
    return f"{int(duration_s) // 60}:{int(duration_s) % 60:02} min"
