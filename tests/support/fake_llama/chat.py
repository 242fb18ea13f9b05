"""Serves chat completions, whole or streamed, with the trouble that a rule asks for."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from tests.support.fake_llama import answers
from tests.support.fake_llama.completion import BadRequestError, Completer, Completion, read_chat
from tests.support.fake_llama.connection import CUT_JSON
from tests.support.fake_llama.rules import CHAT

if TYPE_CHECKING:
    from tests.support.fake_llama.answers import Timings
    from tests.support.fake_llama.builds import Build
    from tests.support.fake_llama.completion import ChatRequest
    from tests.support.fake_llama.connection import Connection, Request
    from tests.support.fake_llama.events import Events
    from tests.support.fake_llama.log import Log
    from tests.support.fake_llama.memory_failures import MemoryFailures
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.process import Clock, Process
    from tests.support.fake_llama.rules import Behaviour
    from tests.support.fake_llama.slots import Slots


class Chat:
    """POST /v1/chat/completions."""

    def __init__(
        self,
        plan: Plan,
        behaviour: Behaviour,
        build: Build,
        *,
        slots: Slots,
        failures: MemoryFailures,
        log: Log,
        process: Process,
        clock: Clock,
        events: Events,
        reasons: bool,
    ) -> None:
        self._plan = plan
        self._behaviour = behaviour
        self._build = build
        self._slots = slots
        self._failures = failures
        self._log = log
        self._process = process
        self._clock = clock
        self._events = events
        self._completer = Completer(
            plan, behaviour, first_token_counts=build.first_token_counts, reasons=reasons
        )
        self._requests = 0
        self._count_lock = threading.Lock()

    def serve(self, connection: Connection, request: Request) -> None:
        with self._count_lock:
            self._requests += 1
            number = self._requests
        self._events.add("request", path=request.path, number=number, body=_json_or_none(request.body))
        try:
            asked = read_chat(request.body, self._plan.n_ctx_slot)
        except BadRequestError as error:
            self._log.warn(f"srv    operator(): got exception: {error.message}")
            connection.send(400, answers.dump(answers.error(400, error.kind, error.message, **error.more)))
            return
        with self._slots.take() as slot:
            head = f"slot launch_slot_: id  {slot.number} | task {number} |"
            self._log.info(f"{head} processing task, is_child = 0")
            self._die_if_due(number)
            completion = self._completer.complete(asked, slot.cached_prompt)
            slot.remember(number, asked)
            if self._hangs_at_once(number, asked):
                connection.wait(None)
            self._deliver(connection, asked, completion, f"id  {slot.number} | task {number} |")

    def _die_if_due(self, number: int) -> None:
        self._process.die_if_told("request", number)
        due = self._behaviour.die_in.request if self._behaviour.die_in else 1
        if number == due:
            self._failures.request()

    def _hangs_at_once(self, number: int, asked: ChatRequest) -> bool:
        """Whether no token ever comes; after an idle gap none comes from the second request on."""
        hang = self._behaviour.hang
        if hang == "after-idle":
            return number > 1
        return hang == "first-token" or (hang == "mid-stream" and not asked.stream)

    def _deliver(self, connection: Connection, asked: ChatRequest, completion: Completion, task: str) -> None:
        told = self._behaviour
        connection.wait(completion.timings.prompt_ms / 1e3 * self._clock.scale)
        if asked.stream:
            self._stream(connection, asked, completion, task)
            return
        connection.wait(completion.real_predicted_s * self._clock.scale)
        body = CUT_JSON
        if CHAT not in told.garbage:
            answer = answers.ChatAnswer(self._plan, self._build)
            content, reasoning = "".join(completion.content), "".join(completion.reasoning)
            timings = completion.timings
            body = answers.dump(answer.whole(content, reasoning, completion.finish_reason, timings))
        self._log_timings(task, completion.timings)
        connection.send(200, body, cut_at=len(body) // 2 if told.half_close else None)

    def _stream(self, connection: Connection, asked: ChatRequest, completion: Completion, task: str) -> None:
        told = self._behaviour
        answer = answers.ChatAnswer(self._plan, self._build)
        connection.start_stream()
        connection.stream(answers.dump(answer.first_chunk()))
        deltas = [{"reasoning_content": token} for token in completion.reasoning]
        deltas += [{"content": token} for token in completion.content]
        pause_s = completion.real_predicted_s / max(1, len(deltas) - 1) * self._clock.scale
        for index, delta in enumerate(deltas):
            if index:
                connection.wait(pause_s)
            if index == len(deltas) // 2:
                if told.hang == "mid-stream":
                    connection.wait(None)
                if told.half_close:
                    return
                if CHAT in told.garbage:
                    connection.stream(CUT_JSON)
            connection.stream(answers.dump(answer.chunk(delta)))
        timings = completion.timings
        self._log_timings(task, timings)
        if asked.include_usage:
            connection.stream(answers.dump(answer.chunk({}, completion.finish_reason)))
            connection.stream(answers.dump(answer.usage_chunk(timings)))
        else:
            last = answer.chunk({}, completion.finish_reason, timings=timings.as_json())
            connection.stream(answers.dump(last))
        connection.stream(b"[DONE]")
        connection.end_stream()

    def _log_timings(self, task: str, t: Timings) -> None:
        """Comes before the end of the answer: who has read it finds the lines in the log."""
        head = f"slot print_timing: {task}"
        self._log.info(
            f"{head} prompt eval time = {t.prompt_ms:10.2f} ms / {t.prompt_n:5} tokens "
            f"({t.prompt_per_token_ms:8.2f} ms per token, {t.prompt_per_second:8.2f} tokens per second)"
        )
        self._log.info(
            f"{head}        eval time = {t.predicted_ms:10.2f} ms / {t.predicted_n:5} tokens "
            f"({t.predicted_per_token_ms:8.2f} ms per token, {t.predicted_per_second:8.2f} tokens per second)"
        )
        total_n = t.prompt_n + t.predicted_n
        self._log.info(
            f"{head}       total time = {t.prompt_ms + t.predicted_ms:10.2f} ms / {total_n:5} tokens"
        )
        if t.draft_n:
            rate = t.draft_n_accepted / t.draft_n
            mean = 1 + self._plan.draft_depth * rate
            self._log.info(
                f"{head} draft acceptance = {rate:.5f} ({t.draft_n_accepted:5} accepted / "
                f"{t.draft_n:5} generated), mean len = {mean:5.2f}"
            )
        self._log.info(f"slot      release: {task} stop processing: n_tokens = {total_n - 1}, truncated = 0")


def _json_or_none(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None
