"""Servers of one study that still run, and ports that are still open."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any

import psutil

from tuner.engine.environment import TOKEN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

#: The kernel needs a moment to end what it was told to.
GONE_DEADLINE_S = 5.0
_POLL_S = 0.01


def servers(events_path: Path) -> list[psutil.Process]:
    """Processes that a tuner has started and whose events go to that file; zombies do not count."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            environ = process.environ()
            mine = environ.get("FAKE_EVENTS") == str(events_path) and TOKEN_VARIABLE in environ
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def left_running(events_path: Path) -> list[int]:
    """Process ids of such servers that do not end by themselves soon."""
    end_s = time.monotonic() + GONE_DEADLINE_S
    while (found := servers(events_path)) and time.monotonic() < end_s:
        time.sleep(_POLL_S)
    return [process.pid for process in found]


def left_open(starts: Iterable[Mapping[str, Any]], events_path: Path) -> list[int]:
    """Ports of launches that are still open, and not because another process was given them meanwhile."""
    ports = {int(argv[argv.index("--port") + 1]) for argv in (start["argv"] for start in starts)}
    own = {process.pid for process in servers(events_path)}
    return sorted(port for port in ports if _answers(port) and not _holders(port) - own)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _holders(port: int) -> set[int | None]:
    return {
        one.pid
        for one in psutil.net_connections("tcp4")
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
    }


def end(events_path: Path) -> None:
    """End what a harness that gives up would leave behind."""
    for process in servers(events_path):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
