"""Serves chat completions, whole or streamed, with the trouble that a rule asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fake_llama import answers
from tests.support.fake_llama.company import gather
from tests.support.fake_llama.connection import CUT_JSON
from tests.support.fake_llama.requests import BadRequestError, read_chat
from tests.support.fake_llama.rules import CHAT
from tests.support.fake_llama.service import Parts, Service

if TYPE_CHECKING:
    from tests.support.fake_llama.completion import Completion
    from tests.support.fake_llama.connection import Connection, Request
    from tests.support.fake_llama.requests import ChatRequest
    from tests.support.fake_llama.slots import Turn


class Chat(Service):
    """POST /v1/chat/completions."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts, "request")
        self._company = gather(parts.plan, parts.behaviour)

    def serve(self, connection: Connection, request: Request) -> None:
        parts = self._parts
        number = self._count(request)
        try:
            asked = read_chat(request.body, parts.plan.n_ctx_slot, caches=parts.slots.caching.by_default)
        except BadRequestError as error:
            self._refuse(connection, error)
            return
        with self._company.visit() as visit, parts.slots.take(asked, at_end=visit.end) as turn:
            task = self._launch(turn, number)
            cold = parts.behaviour.cold
            speedup = cold.factor if cold and number <= cold.requests else 1.0
            lost = parts.behaviour.cache_lost
            reused = 0 if lost and number >= lost.from_request else turn.reusable(asked)
            in_company = visit.wait_for_others()
            completion = parts.completer.complete(asked, reused, speedup, in_company=in_company)
            turn.remember(number, asked, completion.words, reused)
            if self._hangs_at_once(turn, asked):
                connection.wait(None)
            self._deliver(connection, asked, completion, turn, task)

    def _hangs_at_once(self, turn: Turn, asked: ChatRequest) -> bool:
        """Whether no token ever comes."""
        hang = self._parts.behaviour.hang
        at_once = hang == "first-token" or (hang == "mid-stream" and not asked.stream)
        return at_once or self._hangs_after_idle(turn)

    def _deliver(
        self, connection: Connection, asked: ChatRequest, completion: Completion, turn: Turn, task: str
    ) -> None:
        told, scale = self._parts.behaviour, self._parts.clock.scale
        connection.wait(completion.timings.prompt_ms / 1e3 * scale)
        if asked.stream:
            self._stream(connection, asked, completion, turn, task)
            return
        connection.wait(completion.real_predicted_s * scale)
        body = CUT_JSON
        if CHAT not in told.garbage:
            answer = answers.ChatAnswer(self._parts.plan, self._parts.build)
            content, reasoning = "".join(completion.content), "".join(completion.reasoning)
            timings = completion.timings
            body = answers.dump(answer.whole(content, reasoning, completion.finish_reason, timings))
        self._log_timings(task, completion.timings)
        turn.end()
        connection.send(200, body, cut_at=len(body) // 2 if told.half_close else None)

    def _stream(
        self, connection: Connection, asked: ChatRequest, completion: Completion, turn: Turn, task: str
    ) -> None:
        told = self._parts.behaviour
        answer = answers.ChatAnswer(self._parts.plan, self._parts.build)
        connection.start_stream()
        connection.stream(answers.dump(answer.first_chunk()))
        deltas = [{"reasoning_content": token} for token in completion.reasoning]
        deltas += [{"content": token} for token in completion.content]
        pause_s = completion.real_predicted_s / max(1, len(deltas) - 1) * self._parts.clock.scale
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
        turn.end()
        if asked.include_usage:
            connection.stream(answers.dump(answer.chunk({}, completion.finish_reason)))
            connection.stream(answers.dump(answer.usage_chunk(timings)))
        else:
            last = answer.chunk({}, completion.finish_reason, timings=timings.as_json())
            connection.stream(answers.dump(last))
        connection.stream(b"[DONE]")
        connection.end_stream()
