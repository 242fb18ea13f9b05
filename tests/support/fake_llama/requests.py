"""Reads and checks requests: what is asked of a completion, and what the engine would refuse."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from typing import Any

from tests.support.fake_llama.distributions import VOCABULARY

#: A word is this many tokens where it is read, and one where it is written.
TOKENS_PER_WORD = 1.3

#: What the fake takes for tokens.
Words = tuple[str, ...]


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
    last_user_word: int | None
    """Where the last message of a user begins; None for what is no conversation."""

    @property
    def words(self) -> Words:
        return tuple(self.prompt.split())


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


def read_chat(body: bytes, n_ctx: int, *, caches: bool) -> ChatRequest:
    """Reads and checks a request.

    Args:
        body: JSON.
        n_ctx: The context of a slot.
        caches: Whether a prompt's beginning is taken from the slot unless the request says otherwise.

    Raises:
        BadRequestError: The engine would answer with HTTP 400.
    """
    asked = _read_json(body)
    if "messages" not in asked:
        raise BadRequestError("'messages' is required")
    contents = [_content(message) for message in asked["messages"]]
    prompt = "\n".join(contents)
    prompt_tokens = _prompt_tokens(prompt, n_ctx)
    no_thinking = asked.get("chat_template_kwargs", {}).get("enable_thinking") is False
    return ChatRequest(
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=_max_tokens(asked),
        cache_prompt=asked.get("cache_prompt", caches),
        id_slot=asked.get("id_slot"),
        last_user_word=_last_user_word(asked["messages"], contents),
        ignore_eos=asked.get("ignore_eos", False),
        stream=asked.get("stream", False),
        include_usage=(asked.get("stream_options") or {}).get("include_usage", False),
        thinks=not no_thinking and asked.get("reasoning_effort") != "none",
    )


def read_raw(body: bytes, n_ctx: int, *, caches: bool) -> RawRequest:
    """Reads and checks a request for one token after a text; its arguments are those of `read_chat`.

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
        cache_prompt=asked.get("cache_prompt", caches),
        id_slot=asked.get("id_slot"),
        last_user_word=None,
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
    places = [int(index / TOKENS_PER_WORD) for index in range(_count_tokens(content))]
    firsts = [before != place for before, place in zip([None, *places], places, strict=False)]
    return [
        zlib.crc32(f"{words[place]} {first}".encode()) % VOCABULARY
        for place, first in zip(places, firsts, strict=True)
    ]


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise BadRequestError(
            f"[json.exception.parse_error.101] parse error at line 1, column 2: {error}"
        ) from error
    return asked if isinstance(asked, dict) else {}


def _count_tokens(text: str) -> int:
    return math.ceil(len(text.split()) * TOKENS_PER_WORD)


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


def _last_user_word(messages: list[dict[str, Any]], contents: list[str]) -> int | None:
    last = max((i for i, message in enumerate(messages) if message.get("role") == "user"), default=None)
    return None if last is None else sum(len(content.split()) for content in contents[:last])


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
