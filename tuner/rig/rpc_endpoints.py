"""Waiting until RPC servers accept connections again, as when one died and its supervisor starts it anew."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING

from tuner.rig.waiting import wait_while

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CONNECT_S = 1.0
_PERIOD_S = 0.1


def wait_until_accepting(
    endpoints: Mapping[str, str],
    *,
    deadline_s: float = 15.0,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Wait until all accept.

    Args:
        endpoints: `host:port` to the engine's name of the device.
        deadline_s: Longer is not waited.
        sleep: Waits some seconds; may raise to end the wait.
        clock: Seconds.

    Returns:
        Names of the devices whose server does not accept all the same.
    """
    silent, _ = wait_while(
        lambda: [name for endpoint, name in endpoints.items() if not _accepts(endpoint)] or None,
        deadline_s=deadline_s,
        period_s=_PERIOD_S,
        sleep=sleep,
        clock=clock,
    )
    return silent or []


def _accepts(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    with contextlib.suppress(OSError, ValueError):
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
        return True
    return False
