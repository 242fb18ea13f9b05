"""Looking at what a server would say next at fixed places, within a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.quality import Position, Probe
from tuner.prompts.passages import filler, passages, places

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.work import Reader

#: The part of what is left after the first passage that reading up to the deep places may take.
_DEEP_PART = 0.5
#: A context that is not deeper than this shows nothing that the shallow places do not.
_LEAST_DEEP_TOKENS, _MOST_DEEP_TOKENS = 640, 32_768
_PIECE_CHARACTERS = 2000
#: Left free in the slot beside the text: a passage and what a chat template may add.
_SPARE_TOKENS = 512
_DEEP_PASSAGE = 4


@dataclass(frozen=True, slots=True)
class Probing:
    """How a server is looked at.

    The places are shallow ones, in passages of some hundred tokens, and deep ones, in one passage after a long
    text. Each request continues the one before, so that little is read twice.
    """

    seconds: float
    deep_characters: int | None = None
    """Length of the text before the deep places, as the reference was asked; None for what time and context allow."""
    now_s: Callable[[], float] = time.monotonic

    def __call__(self, server: Reader, prompt_tok_s: float | None) -> Probe:
        """Ask at as many places as the time allows; at least at the first.

        Args:
            server: Whom to ask.
            prompt_tok_s: How fast it reads prompts; None where that is not known, and then nothing deep is asked.
        """
        end_s = self.now_s() + self.seconds
        found: list[Position] = []
        characters = 0
        for number, passage in enumerate(passages()):
            found += self._places(server, f"{number}", "", passage, end_s)
            if number == 0 and prompt_tok_s is not None:
                characters = self._read(server, prompt_tok_s, end_s)
                if characters:
                    found += self._places(
                        server, "deep", filler(characters), passages()[_DEEP_PASSAGE], end_s
                    )
            if self.now_s() >= end_s:
                break
        return Probe(tuple(found), self.now_s() - (end_s - self.seconds), characters)

    def _places(self, server: Reader, name: str, before: str, passage: str, end_s: float) -> list[Position]:
        depth = server.count_tokens(before + passage) or 0
        found: list[Position] = []
        for n, text in enumerate(places(passage)):
            if n and self.now_s() >= end_s:
                break
            next_token = server.next_token(before + text)
            if next_token is None:
                break
            found.append(Position(f"{name}/{n}", depth, next_token, deep=bool(before)))
        return found

    def _read(self, server: Reader, prompt_tok_s: float, end_s: float) -> int:
        """Let it read up to the deep places, piece by piece, since long texts are read ever more slowly.

        Returns:
            Length of what it has read; 0 where that is no deeper than the shallow places, or not as deep as the
            reference was asked.
        """
        if server.slot_context is None:
            return 0
        most = min(server.slot_context - _SPARE_TOKENS, _MOST_DEEP_TOKENS)
        wanted = self.deep_characters
        until_s = end_s if wanted is not None else self.now_s() + (end_s - self.now_s()) * _DEEP_PART
        characters = depth = 0
        rate = prompt_tok_s
        while characters != wanted:
            text = filler(characters + _PIECE_CHARACTERS)
            tokens = server.count_tokens(text)
            if not tokens or tokens > most or self.now_s() + (tokens - depth) / rate > until_s:
                break
            began_s = self.now_s()
            if server.next_token(text) is None:
                break
            rate = (tokens - depth) / max(self.now_s() - began_s, 1e-3)
            characters, depth = characters + _PIECE_CHARACTERS, tokens
        enough = depth >= _LEAST_DEEP_TOKENS if wanted is None else characters == wanted
        return characters if enough else 0
