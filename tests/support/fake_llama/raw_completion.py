"""Serves raw completions of one token: what would come next after a text, and how likely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fake_llama import answers
from tests.support.fake_llama.connection import CUT_JSON
from tests.support.fake_llama.distributions import next_tokens
from tests.support.fake_llama.requests import BadRequestError, read_raw
from tests.support.fake_llama.service import Parts, Service

if TYPE_CHECKING:
    from tests.support.fake_llama.connection import Connection, Request
    from tests.support.fake_llama.slots import Turn

PATHS = ("/completion", "/completions")


class RawCompletion(Service):
    """POST /completion."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts, "completion")

    def serve(self, connection: Connection, request: Request) -> None:
        parts, told = self._parts, self._parts.behaviour
        number = self._count(request)
        try:
            asked = read_raw(request.body, parts.plan.n_ctx_slot, caches=parts.slots.caching.by_default)
        except BadRequestError as error:
            self._refuse(connection, error)
            return
        with parts.slots.take(asked) as turn:
            task = self._launch(turn, number)
            reused = turn.reusable(asked)
            timings = parts.completer.read(asked, reused)
            turn.remember(number, asked, (), reused)
            if self._hangs(turn):
                connection.wait(None)
            connection.wait(timings.prompt_ms / 1e3 * parts.clock.scale)
            tokens = next_tokens(asked.prompt, parts.plan, told)
            body = answers.dump(answers.raw_completion(parts.plan, asked, turn.slot.number, timings, tokens))
            if request.path in told.garbage:
                body = CUT_JSON
            self._log_timings(task, timings)
            turn.end()
            connection.send(200, body, cut_at=len(body) // 2 if told.half_close else None)

    def _hangs(self, turn: Turn) -> bool:
        return self._parts.behaviour.hang in ("first-token", "completion") or self._hangs_after_idle(turn)
