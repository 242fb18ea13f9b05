"""What a slot holds of one conversation, and how much of it serves another prompt."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.fake_llama.requests import Words

#: A hybrid model keeps a checkpoint so many words before the end of each prompt.
_BEFORE_END = 4


@dataclass(frozen=True, slots=True)
class Held:
    """Words that were read or written, and the places among them that a hybrid model can go back to."""

    words: Words = ()
    checkpoints: tuple[int, ...] = ()

    def common(self, words: Sequence[str]) -> int:
        """How many words from the beginning are the same."""
        pairs = zip(self.words, words, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def reusable(self, words: Words, *, hybrid: bool) -> int:
        """How many words of a prompt need not be read again.

        A hybrid model's state cannot be cut: it serves a prompt that goes on where it ends, or else as it was at
        the last checkpoint.
        """
        same = self.common(words)
        if not hybrid or same == len(self.words) < len(words):
            return same
        return max((place for place in self.checkpoints if place <= same), default=0)

    def after(
        self, words: Words, written: Words, *, reused: int, last_user_word: int | None, checkpoints: int
    ) -> Held:
        """What is held after a prompt and its answer.

        Args:
            words: The prompt.
            written: The answer.
            reused: How much of the prompt was not read again.
            last_user_word: Where the last message of a user begins, if there is one.
            checkpoints: How many are kept; 0 for a model that needs none.
        """
        made = {len(words) - _BEFORE_END, last_user_word or 0}
        places = {place for place in self.checkpoints if place <= reused}
        places |= {place for place in made if place >= max(1, reused)}
        newest = sorted(places)[-checkpoints:] if checkpoints else []
        # What is sampled last is not decoded any more: the next turn reads it.
        return Held((*words, *written[:-1]), tuple(newest))
