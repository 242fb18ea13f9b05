"""One conversation out of a user's file, with its place in it; and what every form of file needs to read JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.errors import PromptError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.workload import Prompt


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which file a conversation stands."""

    file: str
    at: str = ""
    """`line 3`, `entry 12`; empty where the file is the conversation."""

    def error(self, what: str) -> PromptError:
        """What is wrong there."""
        return PromptError(f"{self.file}, {self.at}: {what}" if self.at else f"{self.file}: {what}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One conversation and where it was found."""

    place: Place
    prompt: Prompt
    is_warmup: bool = False


def decoded(file: str, raw: bytes) -> str:
    """The text of a file, without the byte order mark with which editors on Windows begin one.

    Raises:
        PromptError: It is not UTF-8.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Whether the mark was cut off or not makes no difference to the number of lines before.
        line_start = error.object.rfind(b"\n", 0, error.start) + 1
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Place(file, f"line {line}").error(
            f"byte {error.start - line_start + 1} is not UTF-8; save the file as UTF-8"
        ) from error


def check_sendable(place: Place, value: object) -> None:
    """Python reads more than a request can carry: NaN, Infinity, half a surrogate pair.

    Raises:
        PromptError: The value holds such a thing.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise unsendable(place, error) from error


def unsendable(place: Place, error: ValueError) -> PromptError:
    """A value that JSON's reader or writer cannot do with."""
    return place.error(f"holds a value that no request can carry ({error}); remove it")


def word(place: Place, value: Mapping[str, Any], key: str, default: str) -> str:
    """The string of an optional key.

    Raises:
        PromptError: It is none, or blank.
    """
    found = value.get(key, default)
    if not isinstance(found, str):
        raise place.error(f'"{key}" is {kind_of(found)}; write a string')
    if not found.strip():
        raise place.error(f'"{key}" is blank; write a word or leave the key out')
    return found


def kind_of(value: object) -> str:
    """What a JSON value is, for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def canonical(value: object) -> str:
    """The same text for the same JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
