"""Conversations with a server over several turns, and how much of each it had in its cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tests.support.fake_engine import FakeProcess

Timings = dict[str, Any]


class Conversation:
    """What one client and the server have said; every answer is 8 tokens and becomes part of it.

    Args:
        server: Who answers.
        system: What it is told first.
    """

    def __init__(self, server: FakeProcess, system: str) -> None:
        self._server = server
        self._messages = [{"role": "system", "content": system}]

    def say(self, text: str, **fields: object) -> Timings:
        """One turn."""
        self._messages.append({"role": "user", "content": text})
        exact = {"max_tokens": 8, "ignore_eos": True, "temperature": 0, "seed": 1}
        body = {"messages": self._messages, **exact, **fields}
        answer = self._server.post("/v1/chat/completions", body).json()
        self._messages.append(answer["choices"][0]["message"])
        timings: Timings = answer["timings"]
        return timings

    def fork(self) -> Self:
        """The same so far; the two go on by themselves."""
        other = type(self)(self._server, "")
        other._messages = list(self._messages)
        return other

    def text(self, place: int) -> str:
        """What a message says; 0 is the system's."""
        return str(self._messages[place]["content"])

    def change(self, place: int, text: str) -> None:
        """Edits a message."""
        self._messages[place] = {**self._messages[place], "content": text}


def reused(timings: Timings) -> float:
    """Which part of a prompt was not read again."""
    cached: int = timings["cache_n"]
    return cached / (cached + int(timings["prompt_n"]))


def numbered(word: str, n: int) -> str:
    """A text of so many different words."""
    return " ".join(f"{word}{number}" for number in range(n))
