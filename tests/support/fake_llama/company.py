"""Tells chats that come alone from those that come several at once."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.rules import Behaviour

_WITHIN_S = 0.05
_WHOLE_BURST_S = 5.0


class Burst:
    """Chats that came so shortly after one another that each finds the others there."""

    def __init__(self, *, joins_others: bool) -> None:
        self.size = 0
        self.joins_others = joins_others
        """Whether chats of an earlier burst were still there when it began."""
        self.last_came_s = 0.0
        self.is_over = False


class Visit:
    """One chat, from its arrival to the end of its answer."""

    def __init__(self, company: Company, burst: Burst) -> None:
        self._company = company
        self._burst = burst
        self._is_over = False

    def wait_for_others(self) -> bool:
        """Waits until no more chats come along with this one; whether any did."""
        return self._company.wait_for_others(self._burst)

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._company.leave()


class Company:
    """Gathers chats into bursts.

    Where everything is instant the first of several chats would have its answer before the second came, or not, by
    chance: so each one waits a little in real time.

    Args:
        requests: A burst of so many is complete, and waits for no other; None for any number.
        within_s: How long each waits after the last one that came.
    """

    def __init__(self, requests: int | None, within_s: float) -> None:
        self._requests = requests
        self._within_s = within_s
        self._change = threading.Condition()
        self._burst: Burst | None = None
        self._there = 0

    @contextlib.contextmanager
    def visit(self) -> Iterator[Visit]:
        visit = Visit(self, self._come())
        try:
            yield visit
        finally:
            visit.end()

    def wait_for_others(self, burst: Burst) -> bool:
        with self._change:
            while not burst.is_over:
                left_s = burst.last_came_s + self._within_s - time.monotonic()
                if left_s > 0:
                    self._change.wait(left_s)
                else:
                    self._close(burst)
            return burst.size > 1 or burst.joins_others

    def leave(self) -> None:
        with self._change:
            self._there -= 1

    def _come(self) -> Burst:
        with self._change:
            burst = self._burst or Burst(joins_others=self._there > 0)
            self._burst = burst
            burst.size += 1
            burst.last_came_s = time.monotonic()
            self._there += 1
            if burst.size == self._requests:
                self._close(burst)
            return burst

    def _close(self, burst: Burst) -> None:
        burst.is_over = True
        self._burst = None
        self._change.notify_all()


def gather(plan: Plan, told: Behaviour) -> Company:
    """Waits only where a rule says so, or the command line asks for several slots."""
    if told.burst is None:
        return Company(None, _WITHIN_S if plan.asked_slots > 1 else 0.0)
    within_s = told.burst.within_s
    if within_s is None:
        within_s = _WITHIN_S if told.burst.requests is None else _WHOLE_BURST_S
    return Company(told.burst.requests, within_s)
