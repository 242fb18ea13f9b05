"""The slots of the server: so many completions run at once, the others wait."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from tests.support.fake_llama import answers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.requests import Asked


class Slot:
    """One place, and what it still knows of its last request."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.busy = False
        self.idle_s: float | None = None
        """How long the server had nothing to do before this request, in real time; None at its first."""
        self.cached_prompt = ""
        self.last: dict[str, Any] | None = None

    def remember(self, task: int, asked: Asked) -> None:
        self.cached_prompt = asked.prompt
        self.last = {"task": task, "n_prompt": asked.prompt_tokens, "max_tokens": asked.max_tokens}


class Slots:
    """Requests beyond the number of slots wait, and so does one for a slot that is taken."""

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._change = threading.Condition()
        self._started = False
        self._last_end_s = 0.0

    @contextlib.contextmanager
    def take(self, number: int | None = None) -> Iterator[Slot]:
        """The slot of that number, or the first free one; as the engine, any for a number that is none."""
        wanted = [slot for slot in self._slots if slot.number == number] or self._slots
        with self._change:
            self._change.wait_for(lambda: not all(slot.busy for slot in wanted))
            slot = next(slot for slot in wanted if not slot.busy)
            slot.idle_s = self._idle_s()
            self._started = slot.busy = True
        try:
            yield slot
        finally:
            with self._change:
                slot.busy = False
                self._last_end_s = time.monotonic()
                self._change.notify_all()

    def wait_until_idle(self) -> None:
        with self._change:
            self._change.wait_for(lambda: not any(slot.busy for slot in self._slots))

    def _idle_s(self) -> float | None:
        if not self._started:
            return None
        busy = any(slot.busy for slot in self._slots)
        return 0.0 if busy else time.monotonic() - self._last_end_s

    def as_json(self, plan: Plan) -> list[answers.Json]:
        with self._change:
            return [answers.slot(s.number, plan, busy=s.busy, last=s.last) for s in self._slots]
