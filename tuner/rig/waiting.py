"""Waiting, with a deadline, until there is no problem left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    _Problem = TypeVar("_Problem")


def wait_while(
    problem: Callable[[], _Problem | None],
    *,
    deadline_s: float,
    period_s: float,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[_Problem | None, float]:
    """Ask until there is no problem, or the deadline has passed.

    Returns:
        The last problem, None where there is none, and the seconds waited.
    """
    start = clock()
    while True:
        found = problem()
        waited_s = clock() - start
        if found is None or waited_s >= deadline_s:
            return found, waited_s
        sleep(min(period_s, deadline_s - waited_s))
