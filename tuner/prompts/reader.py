"""Prompt sets out of JSONL: one conversation a line, the shipped ones and the user's own.

A line is an object with `messages` (and, where wanted, `id`, `class` and `warmup`) or a bare array of OpenAI
chat messages. Everything wrong is a `PromptError` that names file and line before anything is launched.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.workload import Prompt, PromptSet
from tuner.errors import PromptError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEYS = ("messages", "id", "class", "warmup")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_DEFAULT_SET = "default"
_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in which file a conversation stands."""

    file: str
    line: int

    def error(self, what: str) -> PromptError:
        return PromptError(f"{self.file}, line {self.line}: {what}")


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line, parsed."""

    place: _Place
    prompt: Prompt
    is_warmup: bool


def builtin_sets() -> tuple[str, ...]:
    """Names of the prompt sets that come with the package, sorted."""
    names = (entry.name for entry in resources.files("tuner.prompts").iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def load_prompts(name_or_path: str) -> PromptSet:
    """The built-in set of that name, else the set in that file.

    A built-in name wins over a file of that name; `./default` reads the file. Without an `id` a prompt is
    called `line-N`, where blank lines do not count, so that white space never renames anything. A file
    without a warm-up gets the one of the built-in `default`.

    Raises:
        PromptError: There is no such set or file, or something in the file is wrong.
    """
    entries = tuple(_entries(name_or_path, _text(name_or_path, _read(name_or_path))))
    _refuse_repeats(entries)
    prompts = tuple(entry.prompt for entry in entries if not entry.is_warmup)
    if not prompts:
        raise PromptError(f"{name_or_path}: holds no prompt to measure; write one conversation a line")
    warmup = _own_warmup(entries) or _builtin_warmup(entries)
    return PromptSet(name=name_or_path, warmup=warmup, prompts=prompts, digest=_digest(warmup, *prompts))


def _read(name_or_path: str) -> bytes:
    builtins = builtin_sets()
    if name_or_path in builtins:
        return resources.files("tuner.prompts").joinpath(name_or_path + _SUFFIX).read_bytes()
    try:
        return Path(name_or_path).read_bytes()
    except FileNotFoundError:
        raise PromptError(
            f"{name_or_path}: neither a file nor a built-in prompt set; "
            f"give the path of a JSONL file or one of: {', '.join(builtins)}"
        ) from None
    except OSError as error:
        raise PromptError(
            f"{name_or_path}: cannot be read ({error.strerror}); give the path of a readable JSONL file"
        ) from error


def _text(file: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")  # editors on Windows begin a file with a byte order mark
    except UnicodeDecodeError as error:
        # Whether the mark was cut off or not makes no difference to the number of lines before.
        line_start = error.object.rfind(b"\n", 0, error.start) + 1
        place = _Place(file, error.object.count(b"\n", 0, error.start) + 1)
        raise place.error(
            f"byte {error.start - line_start + 1} is not UTF-8; save the file as UTF-8"
        ) from error


def _entries(file: str, text: str) -> Iterator[_Entry]:
    # Not splitlines(): JSON strings may hold U+2028 and other characters at which it would cut.
    ordinal = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            ordinal += 1
            yield _entry(_Place(file, number), line, default_id=f"line-{ordinal}")


def _entry(place: _Place, line: str, *, default_id: str) -> _Entry:
    value = _json(place, line)
    if isinstance(value, list):
        value = {"messages": value}
    if not isinstance(value, dict):
        raise place.error(f'{_kind(value)}; write an object with "messages", or an array of messages')
    for key in value:
        if key not in _KEYS:
            raise place.error(f'unknown key "{key}"; remove it or use one of: {", ".join(_KEYS)}')
    is_warmup = value.get("warmup", False)
    if not isinstance(is_warmup, bool):
        raise place.error(f'"warmup" is {_kind(is_warmup)}; write true or false')
    prompt = Prompt(
        id=_word(place, value, "id", default_id),
        prompt_class=_word(place, value, "class", "user"),
        messages=_messages(place, value),
    )
    return _Entry(place, prompt, is_warmup)


def _json(place: _Place, line: str) -> object:
    try:
        value: object = json.loads(line)
        # Python reads more than a request can carry: NaN, Infinity, half a surrogate pair.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        raise place.error(
            f"column {error.colno}: no valid JSON ({error.msg}); write each conversation on one line"
        ) from error
    except RecursionError as error:
        raise place.error("nested too deeply to be read; write an array of flat messages") from error
    except ValueError as error:
        raise place.error(f"holds a value that no request can carry ({error}); remove it") from error
    return value


def _word(place: _Place, value: Mapping[str, Any], key: str, default: str) -> str:
    word = value.get(key, default)
    if not isinstance(word, str):
        raise place.error(f'"{key}" is {_kind(word)}; write a string')
    if not word.strip():
        raise place.error(f'"{key}" is blank; write a word or leave the key out')
    return word


def _messages(place: _Place, value: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if "messages" not in value:
        raise place.error('no "messages"; add the array of the conversation\'s messages')
    messages = value["messages"]
    if not isinstance(messages, list):
        raise place.error(f'"messages" is {_kind(messages)}; write an array of messages')
    if not messages:
        raise place.error('"messages" is empty; write at least the user\'s message')
    for number, message in enumerate(messages, start=1):
        _check_message(place, f"message {number}", message)
    if (last := messages[-1]["role"]) not in {"user", "tool"}:
        raise place.error(
            f'the last message has the role "{last}"; end with a message of the user (or a tool)'
        )
    return tuple(messages)


def _check_message(place: _Place, name: str, message: object) -> None:
    if not isinstance(message, dict):
        raise place.error(f'{name} is {_kind(message)}; write an object with "role" and "content"')
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
        raise place.error(f'{name} has as "content" {_kind(content)}; write a string or an array of parts')
    for number, part in enumerate(content, start=1):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise place.error(f'{name}, part {number} has no "type"; write {{"type": "text", "text": ...}}')


def _kind(value: object) -> str:
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


def _refuse_repeats(entries: tuple[_Entry, ...]) -> None:
    ids: dict[str, int] = {}
    conversations: dict[str, int] = {}
    for entry in entries:
        line = entry.place.line
        if (first := ids.setdefault(entry.prompt.id, line)) != line:
            raise entry.place.error(
                f'the id "{entry.prompt.id}" is already that of line {first}; give each its own'
            )
        if (first := conversations.setdefault(_canonical(entry.prompt.messages), line)) != line:
            raise entry.place.error(
                f"the same messages as line {first}, and a server would answer from its cache; "
                "remove one of the two"
            )


def _own_warmup(entries: tuple[_Entry, ...]) -> Prompt | None:
    marked = [entry for entry in entries if entry.is_warmup]
    if len(marked) > 1:
        raise marked[1].place.error(
            f"a second warm-up besides line {marked[0].place.line}; mark only one line as warm-up"
        )
    return marked[0].prompt if marked else None


def _builtin_warmup(entries: tuple[_Entry, ...]) -> Prompt:
    warmup = load_prompts(_DEFAULT_SET).warmup
    for entry in entries:
        if _canonical(entry.prompt.messages) == _canonical(warmup.messages):
            raise entry.place.error(
                "the same messages as the built-in warm-up, and a server would answer from its cache; "
                'mark the line with "warmup": true or change it'
            )
    return warmup


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(*prompts: Prompt) -> str:
    rows = [[prompt.id, prompt.prompt_class, prompt.messages] for prompt in prompts]
    return hashlib.sha256(_canonical(rows).encode()).hexdigest()
