"""Prompts as JSONL: one conversation a line, the shipped ones and what a user has written by hand.

A line is an object with `messages` (and, where wanted, `id`, `class` and `warmup`) or a bare array of OpenAI
chat messages. Everything wrong is a `PromptError` that names file and line before anything is launched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tuner.core.workload import Prompt
from tuner.prompts.entry import Entry, Place, canonical, check_sendable, kind_of, unsendable, word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEYS = ("messages", "id", "class", "warmup")
_ROLES = ("system", "developer", "user", "assistant", "tool")


def read_jsonl(file: str, text: str) -> tuple[Entry, ...]:
    """The conversations of a file.

    Without an `id` one is called `line-N`, where blank lines do not count, so that white space never renames
    anything.

    Raises:
        PromptError: Something in the file is wrong, or stands there twice.
    """
    found = tuple(_entries(file, text))
    _refuse_repeats(found)
    return found


def _entries(file: str, text: str) -> Iterator[Entry]:
    # Not splitlines(): JSON strings may hold U+2028 and other characters at which it would cut.
    ordinal = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            ordinal += 1
            yield _entry(Place(file, f"line {number}"), line, default_id=f"line-{ordinal}")


def _entry(place: Place, line: str, *, default_id: str) -> Entry:
    value = _json(place, line)
    if isinstance(value, list):
        value = {"messages": value}
    if not isinstance(value, dict):
        raise place.error(f'{kind_of(value)}; write an object with "messages", or an array of messages')
    for key in value:
        if key not in _KEYS:
            raise place.error(f'unknown key "{key}"; remove it or use one of: {", ".join(_KEYS)}')
    is_warmup = value.get("warmup", False)
    if not isinstance(is_warmup, bool):
        raise place.error(f'"warmup" is {kind_of(is_warmup)}; write true or false')
    prompt = Prompt(
        id=word(place, value, "id", default_id),
        prompt_class=word(place, value, "class", "user"),
        messages=_messages(place, value),
    )
    return Entry(place, prompt, is_warmup)


def _json(place: Place, line: str) -> object:
    try:
        value: object = json.loads(line)
    except json.JSONDecodeError as error:
        raise place.error(
            f"column {error.colno}: no valid JSON ({error.msg}); write each conversation on one line"
        ) from error
    except RecursionError as error:
        raise place.error("nested too deeply to be read; write an array of flat messages") from error
    except ValueError as error:
        raise unsendable(place, error) from error
    check_sendable(place, value)
    return value


def _messages(place: Place, value: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if "messages" not in value:
        raise place.error('no "messages"; add the array of the conversation\'s messages')
    messages = value["messages"]
    if not isinstance(messages, list):
        raise place.error(f'"messages" is {kind_of(messages)}; write an array of messages')
    if not messages:
        raise place.error('"messages" is empty; write at least the user\'s message')
    for number, message in enumerate(messages, start=1):
        _check_message(place, f"message {number}", message)
    if (last := messages[-1]["role"]) not in {"user", "tool"}:
        raise place.error(
            f'the last message has the role "{last}"; end with a message of the user (or a tool)'
        )
    return tuple(messages)


def _check_message(place: Place, name: str, message: object) -> None:
    if not isinstance(message, dict):
        raise place.error(f'{name} is {kind_of(message)}; write an object with "role" and "content"')
    if "role" not in message:
        raise place.error(f'{name} has no "role"; add one of: {", ".join(_ROLES)}')
    role = message["role"]
    if role not in _ROLES:
        raise place.error(f"{name} has the unknown role {json.dumps(role)}; use one of: {', '.join(_ROLES)}")
    content = message.get("content")
    if content is None and role == "assistant" and message.get("tool_calls"):
        return  # an assistant that calls a tool need not say anything
    if "content" not in message:
        raise place.error(f'{name} has no "content"; add the text')
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise place.error(f'{name} has as "content" {kind_of(content)}; write a string or an array of parts')
    for number, part in enumerate(content, start=1):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise place.error(f'{name}, part {number} has no "type"; write {{"type": "text", "text": ...}}')


def _refuse_repeats(entries: tuple[Entry, ...]) -> None:
    ids: dict[str, str] = {}
    conversations: dict[str, str] = {}
    for entry in entries:
        here = entry.place.at
        if (first := ids.setdefault(entry.prompt.id, here)) != here:
            raise entry.place.error(
                f'the id "{entry.prompt.id}" is already that of {first}; give each its own'
            )
        if (first := conversations.setdefault(canonical(entry.prompt.messages), here)) != here:
            raise entry.place.error(
                f"the same messages as {first}, and a server would answer from its cache; remove one of the two"
            )
