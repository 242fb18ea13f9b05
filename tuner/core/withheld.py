"""What others say, without what a user's prompts say and what was answered to them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tuner.core.workload import Prompt

_LEFT_OUT = "[left out]"
#: So many characters in a row that a prompt has too are its words; fewer may be anybody's.
LEAST_CHARACTERS = 16
#: What the engine puts a request or an answer behind, up to its next line of log (common/chat.cpp).
_QUOTED = re.compile(
    r"((?:unparsed \S+ output|Failed to parse input at pos \d+|messages =|the stream holds no \w+):? )"
    r".*?(?=\n(?:\d+\.)+\d+ [A-Z] |\Z)",
    re.DOTALL,
)


def spoken(prompts: Iterable[Prompt]) -> str:
    """Everything that prompts say, as it is and as JSON writes it."""
    found: list[str] = []
    for text in _texts([prompt.messages for prompt in prompts]):
        found += (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return "\0".join(found)


def without_quotes(said: str) -> str:
    """A text without requests and answers that the engine is known to quote."""
    return _QUOTED.sub(rf"\1{_LEFT_OUT}", said)


def withheld(said: str, prompts: str) -> str:
    """A short text without quotes, and without what it has in common with `spoken` prompts."""
    said = without_quotes(said)
    theirs = [False] * len(said)
    for start in range(len(said) - LEAST_CHARACTERS + 1):
        if said[start : start + LEAST_CHARACTERS] in prompts:
            theirs[start : start + LEAST_CHARACTERS] = [True] * LEAST_CHARACTERS
    return "".join(
        character if not own else _LEFT_OUT if at == 0 or not theirs[at - 1] else ""
        for at, (character, own) in enumerate(zip(said, theirs, strict=True))
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
