"""Works out one completion: its tokens, its text and how long it takes."""

from __future__ import annotations

import itertools
import json
import math
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.fake_llama.answers import Timings
from tests.support.fake_llama.distributions import VOCABULARY

if TYPE_CHECKING:
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.rules import Behaviour

_TOKENS_PER_WORD = 1.3
_NATURAL_LENGTH = 64
_NONSENSE = "////"
_TEXT = "The two cards share the work and the faster one carries the larger part of it."


class BadRequestError(Exception):
    """The body of an HTTP 400: what is wrong, and which kind of error it is."""

    def __init__(self, message: str, kind: str = "invalid_request_error", **more: object) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.more = more


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of any request for a completion that the fake looks at."""

    prompt: str
    prompt_tokens: int
    max_tokens: int
    cache_prompt: bool
    id_slot: int | None


@dataclass(frozen=True, slots=True)
class ChatRequest(Asked):
    """A conversation."""

    ignore_eos: bool
    stream: bool
    include_usage: bool
    thinks: bool


@dataclass(frozen=True, slots=True)
class RawRequest(Asked):
    """A text, and how many of the tokens that may follow it are wanted."""

    n_probs: int


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer, token by token."""

    reasoning: tuple[str, ...]
    content: tuple[str, ...]
    finish_reason: str
    timings: Timings
    real_predicted_s: float
    """What it takes by the model, whatever the timings claim."""


def read_chat(body: bytes, n_ctx: int) -> ChatRequest:
    """Reads and checks a request.

    Raises:
        BadRequestError: The engine would answer with HTTP 400.
    """
    asked = _read_json(body)
    if "messages" not in asked:
        raise BadRequestError("'messages' is required")
    prompt = "\n".join(_content(message) for message in asked["messages"])
    prompt_tokens = _prompt_tokens(prompt, n_ctx)
    no_thinking = asked.get("chat_template_kwargs", {}).get("enable_thinking") is False
    return ChatRequest(
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=_max_tokens(asked),
        cache_prompt=asked.get("cache_prompt", True),
        id_slot=asked.get("id_slot"),
        ignore_eos=asked.get("ignore_eos", False),
        stream=asked.get("stream", False),
        include_usage=(asked.get("stream_options") or {}).get("include_usage", False),
        thinks=not no_thinking and asked.get("reasoning_effort") != "none",
    )


def read_raw(body: bytes, n_ctx: int) -> RawRequest:
    """Reads and checks a request for one token after a text.

    Raises:
        BadRequestError: The engine would answer with HTTP 400, or the fake cannot do what is asked.
    """
    asked = _read_json(body)
    if "prompt" not in asked:
        raise BadRequestError("[json.exception.out_of_range.403] key 'prompt' not found")
    if _max_tokens(asked) not in (0, 1) or asked.get("stream") or not isinstance(asked["prompt"], str):
        raise BadRequestError('the fake completes a text by one token, not streamed: send "n_predict": 1')
    return RawRequest(
        prompt=asked["prompt"],
        prompt_tokens=_prompt_tokens(asked["prompt"], n_ctx),
        max_tokens=1,
        cache_prompt=asked.get("cache_prompt", True),
        id_slot=asked.get("id_slot"),
        n_probs=_integer(asked, "n_probs", 0),
    )


def read_tokens(body: bytes) -> list[int]:
    """What /tokenize answers: as many tokens as a prompt of this text is, the same for the same words.

    Raises:
        BadRequestError: The engine would answer with HTTP 400.
    """
    content = _read_json(body).get("content", "")
    if not isinstance(content, str):
        raise BadRequestError(
            f"[json.exception.type_error.302] type must be string, but is {_json_type(content)}"
        )
    words = content.split()
    places = [int(index / _TOKENS_PER_WORD) for index in range(_count_tokens(content))]
    firsts = [before != place for before, place in zip([None, *places], places, strict=False)]
    return [
        zlib.crc32(f"{words[place]} {first}".encode()) % VOCABULARY
        for place, first in zip(places, firsts, strict=True)
    ]


class Completer:
    """Answers by the plan and the rule."""

    def __init__(self, plan: Plan, behaviour: Behaviour, *, first_token_counts: bool, reasons: bool) -> None:
        self._plan = plan
        self._behaviour = behaviour
        self._first_token_counts = first_token_counts
        self._reasons = reasons

    def complete(self, request: ChatRequest, cached_prompt: str, speedup: float) -> Completion:
        """All of an answer.

        Args:
            request: What is asked.
            cached_prompt: What the slot has read last.
            speedup: How many times as fast as usual.
        """
        tokens, finish_reason = self._tokens(request)
        cut = len(tokens) // 2 if self._reasons and request.thinks else 0
        n = len(tokens)
        predicted_s = (n - 1) / self._plan.tok_s / speedup
        return Completion(
            reasoning=tuple(tokens[:cut]),
            content=tuple(tokens[cut:]),
            finish_reason=finish_reason,
            timings=self._timings(request, cached_prompt, n, predicted_s, speedup),
            real_predicted_s=predicted_s,
        )

    def read(self, request: RawRequest, cached_prompt: str) -> Timings:
        """A prompt and the one token after it, which costs nothing more."""
        return self._timings(request, cached_prompt, 1, 0.0, 1.0)

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

    def _timings(
        self, request: Asked, cached_prompt: str, n: int, predicted_s: float, speedup: float
    ) -> Timings:
        cached = _cached_tokens(request, cached_prompt)
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


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise BadRequestError(
            f"[json.exception.parse_error.101] parse error at line 1, column 2: {error}"
        ) from error
    return asked if isinstance(asked, dict) else {}


def _count_tokens(text: str) -> int:
    return math.ceil(len(text.split()) * _TOKENS_PER_WORD)


def _prompt_tokens(prompt: str, n_ctx: int) -> int:
    tokens = _count_tokens(prompt) or 1
    if tokens >= n_ctx:
        raise BadRequestError(
            f"request ({tokens} tokens) exceeds the available context size ({n_ctx} tokens), "
            "try increasing it",
            "exceed_context_size_error",
            n_prompt_tokens=tokens,
            n_ctx=n_ctx,
        )
    return tokens


def _cached_tokens(request: Asked, cached_prompt: str) -> int:
    """The common beginning, but one token is always processed."""
    if not request.cache_prompt:
        return 0
    pairs = zip(request.prompt.split(), cached_prompt.split(), strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return min(math.floor(same * _TOKENS_PER_WORD), request.prompt_tokens - 1)


def _content(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def _max_tokens(asked: dict[str, Any]) -> int:
    for field in ("n_predict", "max_tokens", "max_completion_tokens"):
        if field not in asked:
            continue
        value = _integer(asked, field, -1)
        if value < -1:
            raise BadRequestError(
                f"Field '{field}': Value must be between -1 <= value <= 2147483647, but got {value}"
            )
        return value
    return -1


def _integer(asked: dict[str, Any], field: str, default: int) -> int:
    value = asked.get(field, default)
    if not isinstance(value, int):
        raise BadRequestError(
            f"Field '{field}': [json.exception.type_error.302] type must be number, but is {_json_type(value)}"
        )
    return value


def _json_type(value: object) -> str:
    names = {
        type(None): "null",
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        dict: "object",
    }
    return names.get(type(value), "array")
