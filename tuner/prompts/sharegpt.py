"""Prompts as an export of chats in ShareGPT's form: objects with `conversations` of `from` and `value`.

An array of them, one a line, or a single one. Of a conversation everything up to the user's last turn is
asked; the model's answer to it is what is measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tuner.core.workload import Prompt
from tuner.prompts.entry import Entry, Place, check_sendable, kind_of, unsendable, word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_CONVERSATIONS, _FROM, _VALUE = "conversations", "from", "value"
_SPACE = " \t\r\n"
#: What exports call those who speak, and what the chat API does.
_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "system": "system",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
}
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Export:
    """What an export holds."""

    entries: tuple[Entry, ...]
    without_user: int
    """Conversations in which no user says anything."""


def is_sharegpt(text: str) -> bool:
    """Whether a file has this form, by the first thing in it."""
    start = _next(text, 0)
    if text.startswith("[", start):
        start = _next(text, start + 1)
    if not text.startswith("{", start):
        return False
    try:
        first, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return False
    return _CONVERSATIONS in first


def read_sharegpt(file: str, text: str) -> Export:
    """The conversations of an export.

    One without an `id` is called `entry-N`; an id that was there before gets its entry's number too.

    Raises:
        PromptError: Something in the file is wrong.
    """
    entries: list[Entry] = []
    ids: set[str] = set()
    without_user = 0
    for number, value in enumerate(_values(file, text), start=1):
        place = Place(file, f"entry {number}")
        messages = _messages(place, value)
        if messages is None:
            without_user += 1
            continue
        name = _id(place, value, number)
        check_sendable(place, [name, messages])
        while name in ids:
            name += f"#{number}"
        ids.add(name)
        entries.append(Entry(place, Prompt(name, "user", messages)))
    return Export(tuple(entries), without_user)


def _values(file: str, text: str) -> Iterator[Any]:
    """The elements of the array; else one value after the other."""
    try:
        at = _next(text, 0)
        if text.startswith("[", at):
            yield from json.loads(text)
            return
        while at < len(text):
            value, at = _DECODER.raw_decode(text, at)
            yield value
            at = _next(text, at)
    except json.JSONDecodeError as error:
        raise Place(file, f"line {error.lineno}").error(
            f"column {error.colno}: no valid JSON ({error.msg}); export the chats again"
        ) from error
    except RecursionError as error:
        raise Place(file).error("nested too deeply to be read; export the chats again") from error
    except ValueError as error:
        raise unsendable(Place(file), error) from error


def _next(text: str, at: int) -> int:
    """Where the next thing begins that is no white space."""
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _id(place: Place, value: Mapping[str, Any], number: int) -> str:
    found = value.get("id")
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    if found is None:
        return f"entry-{number}"
    return word(place, value, "id", "")


def _messages(place: Place, value: object) -> tuple[Mapping[str, Any], ...] | None:
    """What is asked; None where no user says anything."""
    if not isinstance(value, dict):
        raise place.error(f'{kind_of(value)}; an export holds objects with "{_CONVERSATIONS}"')
    if _CONVERSATIONS not in value:
        raise place.error(f'no "{_CONVERSATIONS}"; add the array of its turns or take the entry out')
    turns = value[_CONVERSATIONS]
    if not isinstance(turns, list):
        raise place.error(f'"{_CONVERSATIONS}" is {kind_of(turns)}; it has to be an array of turns')
    said = [_turn(place, number, turn) for number, turn in enumerate(turns, start=1)]
    while said and (said[-1][0] != "user" or not said[-1][1].strip()):
        said.pop()
    if not said:
        return None
    return tuple(_joined(_from_the_users_first(said)))


def _turn(place: Place, number: int, turn: object) -> tuple[str, str]:
    """Who says what."""
    name = f"turn {number}"
    if not isinstance(turn, dict):
        raise place.error(f'{name} is {kind_of(turn)}; it has to be an object with "{_FROM}" and "{_VALUE}"')
    for key in (_FROM, _VALUE):
        if not isinstance(turn.get(key), str):
            what = f"is {kind_of(turn[key])}" if key in turn else "is missing"
            raise place.error(f'{name}: "{key}" {what}; it has to be a string')
    role = _ROLES.get(turn[_FROM])
    if role is None:
        raise place.error(
            f"{name} is from the unknown {json.dumps(turn[_FROM])}; use one of: {', '.join(_ROLES)}"
        )
    return role, turn[_VALUE]


def _from_the_users_first(said: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Without answers to what the export does not hold: exports cut long chats, and templates refuse them."""
    spoken = False
    for role, text in said:
        spoken = spoken or role == "user"
        if spoken or role == "system":
            yield role, text


def _joined(said: Iterator[tuple[str, str]]) -> Iterator[Mapping[str, str]]:
    """As messages; what one says in several turns is one message, since templates want them to alternate."""
    for role, turns in groupby(said, key=lambda turn: turn[0]):
        texts = [text for _, text in turns]
        if role == "tool":
            yield from ({"role": role, "content": text} for text in texts)
        else:
            yield {"role": role, "content": "\n\n".join(texts)}
