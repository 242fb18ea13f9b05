"""Whether answers are language, and whether they begin as the reference's do.

The distributions of `tuner.core.quality` say how far a configuration is off; what is looked at here is what a
user would see at once: one character over and over, bytes that are no text, nothing at all, or greedy answers
none of which begins as the reference's.
"""

from __future__ import annotations

import unicodedata
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Shorter answers say nothing.
_LEAST_CHARACTERS = 40
#: Compressed length over length, without what any text costs.
_LOOPS = 0.06
_PACKING_BYTES = 11
_LEAST_LETTERS = 0.3
_MOST_UNPRINTABLE = 0.1
#: So many times worse than the reference's answer to the same prompt.
_TIMES = 3.0
#: Fewer answers may all begin otherwise by chance.
_LEAST_ANSWERS = 3
#: What two beginnings have in common; whole words would be whole sentences where nobody writes spaces.
_BEGINNING_CHARACTERS = 3


def garbage(text: str, beside: str | None = None) -> str | None:
    """Why a text is no language; None where it may be.

    Args:
        text: An answer.
        beside: The reference's answer to the same prompt, which may be odd in the same way; None without one.
    """
    if not text.strip() and beside is not None and len(beside.strip()) >= _LEAST_CHARACTERS:
        return "nothing can be seen of it"
    if len(text) < _LEAST_CHARACTERS:
        return None
    odd = _unprintable(text)
    if odd > _MOST_UNPRINTABLE and odd > _TIMES * (0.0 if beside is None else _unprintable(beside)):
        return f"{odd:.0%} of its characters are no text"
    letters = _letters(text)
    if letters < _LEAST_LETTERS and (beside is None or _TIMES * letters < _letters(beside)):
        return f"{letters:.0%} of its characters are letters or digits"
    packed = _packed(text)
    if packed < _LOOPS and (beside is None or packed * _TIMES < _packed(beside)):
        return "it repeats itself"
    return None


def why_nonsense(answers: Mapping[str, str], reference: Mapping[str, str], *, greedy: bool) -> str | None:
    """Why answers cannot be those of this model; None where they may.

    Args:
        answers: Texts by prompt.
        reference: The reference's.
        greedy: Whether both took the likeliest token each time, so that they have to begin alike.
    """
    found = {name: garbage(text, reference.get(name)) for name, text in answers.items()}
    said = [why for why in found.values() if why is not None]
    if said and 2 * len(said) > len(found):
        return f"{len(said)} of {len(found)} answers are no language: {said[0]}"
    both = [name for name in answers if reference.get(name, "").strip()]
    alike = any(_beginning(answers[name]) == _beginning(reference[name]) for name in both)
    if greedy and len(both) >= _LEAST_ANSWERS and not alike:
        return f"none of {len(both)} answers begins as the reference's"
    return None


def agreement(answers: Mapping[str, str], reference: Mapping[str, str]) -> float | None:
    """Mean part of the reference's answers, in words, before the first that differs; None without any in common."""
    parts = []
    for name, text in answers.items():
        theirs = reference.get(name, "").split()
        if theirs:
            parts.append(_common(text.split(), theirs) / len(theirs))
    return sum(parts) / len(parts) if parts else None


def _beginning(text: str) -> str:
    return text.strip()[:_BEGINNING_CHARACTERS]


def _common(words: Sequence[str], others: Sequence[str]) -> int:
    n = 0
    for one, other in zip(words, others, strict=False):
        if one != other:
            break
        n += 1
    return n


def _unprintable(text: str) -> float:
    odd = sum(
        character == "\N{REPLACEMENT CHARACTER}"
        or (unicodedata.category(character).startswith("C") and character not in "\n\r\t")
        for character in text
    )
    return odd / len(text)


def _letters(text: str) -> float:
    """Spaces aside."""
    dense = [character for character in text if not character.isspace()]
    return sum(character.isalnum() for character in dense) / len(dense) if dense else 0.0


def _packed(text: str) -> float:
    raw = text.encode("utf-8", "replace")
    return max(len(zlib.compress(raw, 9)) - _PACKING_BYTES, 0) / max(len(raw), 1)
