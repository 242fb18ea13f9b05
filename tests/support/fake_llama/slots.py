"""The slots of the server: so many completions run at once, the others wait."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from tests.support.fake_llama import answers
from tests.support.fake_llama.held import Held
from tests.support.fake_llama.prompt_cache import PromptCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.fake_llama.caching import Caching
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.requests import Asked, Words

#: A slot that was chosen for its prompt, but of which less than this part is used, has it saved.
_WORTH_SAVING = 0.5


class Slot:
    """One place, and what it holds of its last request."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.busy = False
        self.last_used = -1
        """Which of the ends of requests was its last."""
        self.held = Held()
        self.last: dict[str, Any] | None = None


class Turn:
    """The time that one request has in a slot."""

    def __init__(self, slots: Slots, slot: Slot, idle_s: float | None, at_end: Callable[[], None]) -> None:
        self._slots = slots
        self._at_end = at_end
        self._is_over = False
        self.slot = slot
        self.idle_s = idle_s
        """How long the server had nothing to do before this request, in real time; None at its first."""

    def reusable(self, asked: Asked) -> int:
        """How many words of the request need not be read again."""
        hybrid = self._slots.caching.hybrid
        return self.slot.held.reusable(asked.words, hybrid=hybrid) if asked.cache_prompt else 0

    def remember(self, task: int, asked: Asked, written: Words, reused: int) -> None:
        """Has the slot hold this request and its answer."""
        self.slot.held = self.slot.held.after(
            asked.words,
            written,
            reused=reused,
            last_user_word=asked.last_user_word,
            checkpoints=self._slots.caching.checkpoints,
        )
        self.slot.last = {"task": task, "n_prompt": asked.prompt_tokens, "max_tokens": asked.max_tokens}

    def end(self) -> None:
        """Frees the slot: due before the client can know that it has the whole answer, and ask for more."""
        if not self._is_over:
            self._is_over = True
            self._slots.free(self.slot)
            self._at_end()


class Slots:
    """Requests beyond the number of slots wait, and so does one for a slot that is taken."""

    def __init__(self, count: int, caching: Caching) -> None:
        self.caching = caching
        self._slots = [Slot(number) for number in range(count)]
        limit_mib = caching.ram_mib if caching.ram_mib >= 0 else None
        self._kept = PromptCache(limit_mib, caching.token_mib) if caching.ram_mib != 0 else None
        self._change = threading.Condition()
        self._turns = 0
        self._ended = 0
        self._started = False
        self._last_end_s = 0.0

    @contextlib.contextmanager
    def take(self, asked: Asked, at_end: Callable[[], None] = lambda: None) -> Iterator[Turn]:
        """The slot that is asked for, or the best free one; as the engine, any for a number that is none."""
        wanted = [slot for slot in self._slots if slot.number == asked.id_slot] or self._slots
        with self._change:
            self._change.wait_for(lambda: not all(slot.busy for slot in wanted))
            free = [slot for slot in wanted if not slot.busy]
            slot = self._chosen(free, asked.words)
            turn = Turn(self, slot, self._idle_s(), at_end)
            self._started = slot.busy = True
            self._turns += 1
            self._save_idle()
        try:
            yield turn
        finally:
            turn.end()
            with self._change:
                self._turns -= 1
                self._change.notify_all()

    def free(self, slot: Slot) -> None:
        with self._change:
            slot.busy = False
            slot.last_used = self._ended
            self._ended += 1
            self._last_end_s = time.monotonic()
            self._change.notify_all()

    def wait_until_idle(self) -> None:
        """Until every client has its answer, or has left."""
        with self._change:
            self._change.wait_for(lambda: self._turns == 0)

    def as_json(self, plan: Plan) -> list[answers.Json]:
        with self._change:
            return [answers.slot(s.number, plan, busy=s.busy, last=s.last) for s in self._slots]

    def _chosen(self, free: list[Slot], words: Words) -> Slot:
        """The one that holds most of the prompt, or else the least recently used.

        What it loses thereby is kept, and what was kept and serves the prompt better takes its place.
        """
        shares = {slot: slot.held.common(words) / max(1, len(words)) for slot in free}
        similar = [slot for slot in free if shares[slot] > self.caching.similarity > 0]
        if similar:
            slot = max(similar, key=shares.__getitem__)
            used = slot.held.common(words) / len(slot.held.words)
            displaces = used < _WORTH_SAVING
        else:
            # Of several that were never used the engine takes the last.
            slot = min(reversed(free), key=lambda slot: slot.last_used)
            displaces = True
        if displaces and self._kept is not None:
            self._kept.save(slot.held)
            slot.held = self._kept.better(slot.held, words)
        return slot

    def _save_idle(self) -> None:
        if self._kept is None or not self.caching.saves_idle:
            return
        for slot in self._slots:
            if slot.busy:
                continue
            self._kept.save(slot.held)
            if self.caching.clears_idle:
                slot.held = Held()

    def _idle_s(self) -> float | None:
        if not self._started:
            return None
        busy = any(slot.busy for slot in self._slots)
        return 0.0 if busy else time.monotonic() - self._last_end_s
