"""What an answer is judged and compared by, in place of its text."""

from __future__ import annotations

import hashlib
import json
import unicodedata
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.workload import Prompt

#: What two beginnings have in common; whole words would be whole sentences where nobody writes spaces.
_BEGINNING_CHARACTERS = 3
_PACKING_BYTES = 11
#: Two words in four billion have the same digest, and a wrong one would only count as alike.
_DIGEST_BYTES = 4


@dataclass(frozen=True, slots=True)
class Imprint:
    """An answer without its words: how much of what it is, and digests that tell where two answers part.

    The digests are keyed with the prompt that was answered. Whoever has this but not the prompt cannot try
    words until one fits.
    """

    characters: int
    visible: int
    """Characters without the white space around them."""
    unprintable: float
    """The part of its characters that is no text."""
    letters: float
    """The part that is letters or digits, spaces aside."""
    packed: float
    """Compressed length over length, without what any text costs."""
    beginning: str
    """Digest of its first characters."""
    words: tuple[str, ...]
    """Of each word, the digest of everything up to it."""

    @classmethod
    def of(cls, text: str, prompt: Prompt | None) -> Self:
        """That of an answer to a prompt; None for one to nothing that is known."""
        question = "" if prompt is None else json.dumps(prompt.messages, sort_keys=True)
        key = hashlib.sha256(question.encode()).digest()
        return cls(
            characters=len(text),
            visible=len(text.strip()),
            unprintable=_unprintable(text),
            letters=_letters(text),
            packed=_packed(text),
            beginning=_digest(text.strip()[:_BEGINNING_CHARACTERS], key),
            words=_digests(text, key),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "words": list(self.words),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` made.

        Raises:
            KeyError: A field is missing.
            TypeError: A field is missing or of another form.
        """
        return cls(**{**document, "words": tuple(document["words"])})


def _digest(text: str, key: bytes) -> str:
    return hashlib.blake2b(
        text.encode(errors="surrogatepass"), key=key, digest_size=_DIGEST_BYTES
    ).hexdigest()


def _digests(text: str, key: bytes) -> tuple[str, ...]:
    so_far = hashlib.blake2b(key=key, digest_size=_DIGEST_BYTES)
    found = []
    for word in text.split():
        so_far.update(word.encode(errors="surrogatepass") + b" ")
        found.append(so_far.hexdigest())
    return tuple(found)


def _unprintable(text: str) -> float:
    odd = sum(
        character == "\N{REPLACEMENT CHARACTER}"
        or (unicodedata.category(character).startswith("C") and character not in "\n\r\t")
        for character in text
    )
    return odd / len(text) if text else 0.0


def _letters(text: str) -> float:
    dense = [character for character in text if not character.isspace()]
    return sum(character.isalnum() for character in dense) / len(dense) if dense else 0.0


def _packed(text: str) -> float:
    raw = text.encode("utf-8", "replace")
    return max(len(zlib.compress(raw, 9)) - _PACKING_BYTES, 0) / max(len(raw), 1)
