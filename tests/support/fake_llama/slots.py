"""The slots of the server: so many completions run at once, the others wait."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from tests.support.fake_llama import answers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.fake_llama.completion import ChatRequest
    from tests.support.fake_llama.plan import Plan


class Slot:
    """One place, and what it still knows of its last request."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.busy = False
        self.cached_prompt = ""
        self.last: dict[str, Any] | None = None

    def remember(self, task: int, asked: ChatRequest) -> None:
        self.cached_prompt = asked.prompt
        self.last = {"task": task, "n_prompt": asked.prompt_tokens, "max_tokens": asked.max_tokens}


class Slots:
    """Requests beyond the number of slots wait."""

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._change = threading.Condition()

    @contextlib.contextmanager
    def take(self) -> Iterator[Slot]:
        with self._change:
            self._change.wait_for(lambda: not all(slot.busy for slot in self._slots))
            slot = next(slot for slot in self._slots if not slot.busy)
            slot.busy = True
        try:
            yield slot
        finally:
            with self._change:
                slot.busy = False
                self._change.notify_all()

    def wait_until_idle(self) -> None:
        with self._change:
            self._change.wait_for(lambda: not any(slot.busy for slot in self._slots))

    def as_json(self, plan: Plan) -> list[answers.Json]:
        with self._change:
            return [answers.slot(s.number, plan, busy=s.busy, last=s.last) for s in self._slots]
