"""Works out one completion: its tokens, its text and how long it takes."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.fake_llama.answers import Timings
from tests.support.fake_llama.requests import TOKENS_PER_WORD

if TYPE_CHECKING:
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.requests import Asked, ChatRequest, RawRequest, Words
    from tests.support.fake_llama.rules import Behaviour

_NATURAL_LENGTH = 64
_NONSENSE = "////"
_TEXT = "The two cards share the work and the faster one carries the larger part of it."


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer, token by token."""

    reasoning: tuple[str, ...]
    content: tuple[str, ...]
    finish_reason: str
    timings: Timings
    real_predicted_s: float
    """What it takes by the model, whatever the timings claim."""

    @property
    def words(self) -> Words:
        return tuple("".join((*self.reasoning, *self.content)).split())


class Completer:
    """Answers by the plan and the rule."""

    def __init__(self, plan: Plan, behaviour: Behaviour, *, first_token_counts: bool, reasons: bool) -> None:
        self._plan = plan
        self._behaviour = behaviour
        self._first_token_counts = first_token_counts
        self._reasons = reasons

    def complete(self, request: ChatRequest, reused: int, speedup: float, *, in_company: bool) -> Completion:
        """All of an answer.

        Args:
            request: What is asked.
            reused: How many words of it need not be read again.
            speedup: How many times as fast as usual.
            in_company: Whether the other slots are busy, too.
        """
        tokens, finish_reason = self._tokens(request)
        cut = len(tokens) // 2 if self._reasons and request.thinks else 0
        n = len(tokens)
        slowdown = self._plan.slowdown(self._plan.slot_count if in_company else 1)
        predicted_s = (n - 1) / self._plan.tok_s * slowdown / speedup
        return Completion(
            reasoning=tuple(tokens[:cut]),
            content=tuple(tokens[cut:]),
            finish_reason=finish_reason,
            timings=self._timings(request, reused, n, predicted_s, speedup),
            real_predicted_s=predicted_s,
        )

    def read(self, request: RawRequest, reused: int) -> Timings:
        """A prompt and the one token after it, which costs nothing more."""
        return self._timings(request, reused, 1, 0.0, 1.0)

    def _tokens(self, request: ChatRequest) -> tuple[list[str], str]:
        """A token is a word with the blanks before it; the text starts over if more are wanted."""
        text = _NONSENSE if self._behaviour.nonsense else self._behaviour.text or _TEXT
        words = re.findall(r"\s*\S+", text) or [text]
        natural = len(words) if self._behaviour.text and not self._behaviour.nonsense else _NATURAL_LENGTH
        room = self._plan.n_ctx_slot - request.prompt_tokens
        wanted = request.max_tokens if request.max_tokens >= 0 else room
        n = max(1, min(wanted, room, wanted if request.ignore_eos else natural))
        rounds = itertools.chain(words, itertools.cycle([f" {words[0].lstrip()}", *words[1:]]))
        ended = not request.ignore_eos and n == natural < wanted
        return list(itertools.islice(rounds, n)), "stop" if ended else "length"

    def _timings(self, request: Asked, reused: int, n: int, predicted_s: float, speedup: float) -> Timings:
        # One token is always processed.
        cached = min(math.floor(reused * TOKENS_PER_WORD), request.prompt_tokens - 1)
        prompt_n = request.prompt_tokens - cached
        drafted = self._drafted(n)
        return Timings(
            cache_n=cached,
            prompt_n=prompt_n,
            prompt_ms=prompt_n / self._plan.prompt_tok_s / speedup * 1e3,
            predicted_n=n,
            predicted_ms=predicted_s * 1e3 * self._behaviour.timings_factor,
            draft_n=drafted,
            draft_n_accepted=round(drafted * self._plan.acceptance),
            first_token_counts=self._first_token_counts,
        )

    def _drafted(self, n: int) -> int:
        """Every step drafts the full depth, and makes one token more than it accepts."""
        depth = self._plan.draft_depth
        steps = math.ceil((n - 1) / (1 + depth * self._plan.acceptance))
        return steps * depth
