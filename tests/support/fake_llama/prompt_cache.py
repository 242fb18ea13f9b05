"""The prompts that were displaced from the slots and are kept in the machine's memory: `--cache-ram`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fake_llama.requests import TOKENS_PER_WORD

if TYPE_CHECKING:
    from tests.support.fake_llama.held import Held
    from tests.support.fake_llama.requests import Words

#: A kept prompt of which a request would use less than this part stays where it is.
_LEAST_KEPT = 0.25


class PromptCache:
    """Oldest first.

    Args:
        limit_mib: None for no limit.
        token_mib: What a token of context takes.
    """

    def __init__(self, limit_mib: float | None, token_mib: float) -> None:
        self._limit_mib = limit_mib
        self._token_mib = token_mib
        self._kept: list[Held] = []

    def save(self, held: Held) -> None:
        """Keeps a copy, unless it is part of another; what is a part of it, or too old to fit, makes way."""
        if not held.words or any(kept.common(held.words) == len(held.words) for kept in self._kept):
            return
        self._kept = [kept for kept in self._kept if kept.common(held.words) < len(kept.words)]
        if self._limit_mib is not None:
            size_mib = self._size_mib(held)
            if size_mib > self._limit_mib:
                return
            while sum(map(self._size_mib, self._kept)) + size_mib > self._limit_mib:
                self._kept.pop(0)
        self._kept.append(held)

    def better(self, held: Held, words: Words) -> Held:
        """Takes out what serves a prompt better than what is held, of which more is used as well; or that itself."""
        best, (best_use, best_share) = held, _use(held, words)
        for kept in self._kept:
            use, share = _use(kept, words)
            if use >= _LEAST_KEPT and use > best_use and share > best_share:
                best, best_use, best_share = kept, use, share
        if best is not held:
            self._kept.remove(best)
        return best

    def _size_mib(self, held: Held) -> float:
        return len(held.words) * TOKENS_PER_WORD * self._token_mib


def _use(held: Held, words: Words) -> tuple[float, float]:
    """Which part of what is held a prompt uses, and which part of the prompt that is."""
    same = held.common(words)
    return same / len(held.words) if held.words else -1.0, same / max(1, len(words))
