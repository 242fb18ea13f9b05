"""What both kinds of completion have in common: counting, dying, refusing, hanging, and lines of the log."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.fake_llama import answers

if TYPE_CHECKING:
    from tests.support.fake_llama.answers import Timings
    from tests.support.fake_llama.builds import Build
    from tests.support.fake_llama.completion import Completer
    from tests.support.fake_llama.connection import Connection, Request
    from tests.support.fake_llama.events import Events
    from tests.support.fake_llama.log import Log
    from tests.support.fake_llama.memory_failures import MemoryFailures
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.process import Clock, Process
    from tests.support.fake_llama.requests import BadRequestError
    from tests.support.fake_llama.rules import Behaviour
    from tests.support.fake_llama.slots import Slots, Turn


@dataclass(frozen=True, slots=True)
class Parts:
    """What serves completions."""

    plan: Plan
    behaviour: Behaviour
    build: Build
    slots: Slots
    completer: Completer
    failures: MemoryFailures
    engine_log: Log
    process: Process
    clock: Clock
    events: Events


class Service:
    """One kind of completion; it counts its own requests.

    Args:
        parts: Shared by all kinds.
        phase: What `die_in` calls a request of this kind.
    """

    def __init__(self, parts: Parts, phase: str) -> None:
        self._parts = parts
        self._phase = phase
        self._requests = 0
        self._count_lock = threading.Lock()

    def _count(self, request: Request) -> int:
        """The number of a request that has come in, from 1."""
        with self._count_lock:
            self._requests += 1
            number = self._requests
        body = _json_or_none(request.body)
        self._parts.events.add("request", path=request.path, number=number, body=body)
        return number

    def _refuse(self, connection: Connection, error: BadRequestError) -> None:
        self._parts.engine_log.warn(f"srv    operator(): got exception: {error.message}")
        connection.send(400, answers.dump(answers.error(400, error.kind, error.message, **error.more)))

    def _launch(self, turn: Turn, number: int) -> str:
        """A request takes its place, if the server survives that; how the log calls it."""
        task = f"id  {turn.slot.number} | task {number} |"
        self._parts.engine_log.info(f"slot launch_slot_: {task} processing task, is_child = 0")
        self._parts.process.die_if_told(self._phase, number)
        due = self._parts.behaviour.die_in
        if (self._phase, number) == ((due.phase, due.request) if due else ("request", 1)):
            self._parts.failures.request()
        return task

    def _hangs_after_idle(self, turn: Turn) -> bool:
        told = self._parts.behaviour
        return told.hang == "after-idle" and turn.idle_s is not None and turn.idle_s >= told.idle_s

    def _log_timings(self, task: str, t: Timings) -> None:
        """Comes before the end of the answer: who has read it finds the lines in the log."""
        engine_log = self._parts.engine_log
        head = f"slot print_timing: {task}"
        engine_log.info(
            f"{head} prompt eval time = {t.prompt_ms:10.2f} ms / {t.prompt_n:5} tokens "
            f"({t.prompt_per_token_ms:8.2f} ms per token, {t.prompt_per_second:8.2f} tokens per second)"
        )
        engine_log.info(
            f"{head}        eval time = {t.predicted_ms:10.2f} ms / {t.predicted_n:5} tokens "
            f"({t.predicted_per_token_ms:8.2f} ms per token, {t.predicted_per_second:8.2f} tokens per second)"
        )
        total_n = t.prompt_n + t.predicted_n
        engine_log.info(
            f"{head}       total time = {t.prompt_ms + t.predicted_ms:10.2f} ms / {total_n:5} tokens"
        )
        if t.draft_n:
            rate = t.draft_n_accepted / t.draft_n
            mean = 1 + self._parts.plan.draft_depth * rate
            engine_log.info(
                f"{head} draft acceptance = {rate:.5f} ({t.draft_n_accepted:5} accepted / "
                f"{t.draft_n:5} generated), mean len = {mean:5.2f}"
            )
        engine_log.info(f"slot      release: {task} stop processing: n_tokens = {total_n - 1}, truncated = 0")


def _json_or_none(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None
