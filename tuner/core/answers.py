"""Whether answers are language, and whether they begin as the reference's do.

The distributions of `tuner.core.quality` say how far a configuration is off; what is looked at here is what a
user would see at once: one character over and over, bytes that are no text, nothing at all, or greedy answers
none of which begins as the reference's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.imprint import Imprint

#: Shorter answers say nothing.
_LEAST_CHARACTERS = 40
_LOOPS = 0.06
_LEAST_LETTERS = 0.3
_MOST_UNPRINTABLE = 0.1
#: So many times worse than the reference's answer to the same prompt.
_TIMES = 3.0
#: Fewer answers may all begin otherwise by chance.
_LEAST_ANSWERS = 3


def garbage(answer: Imprint, beside: Imprint | None = None) -> str | None:
    """Why an answer is no language; None where it may be.

    Args:
        answer: Of any prompt.
        beside: The reference's answer to the same prompt, which may be odd in the same way; None without one.
    """
    if not answer.visible and beside is not None and beside.visible >= _LEAST_CHARACTERS:
        return "nothing can be seen of it"
    if answer.characters < _LEAST_CHARACTERS:
        return None
    odd = answer.unprintable
    if odd > _MOST_UNPRINTABLE and odd > _TIMES * (0.0 if beside is None else beside.unprintable):
        return f"{odd:.0%} of its characters are no text"
    letters = answer.letters
    if letters < _LEAST_LETTERS and (beside is None or _TIMES * letters < beside.letters):
        return f"{letters:.0%} of its characters are letters or digits"
    if answer.packed < _LOOPS and (beside is None or answer.packed * _TIMES < beside.packed):
        return "it repeats itself"
    return None


def why_nonsense(
    answers: Mapping[str, Imprint], reference: Mapping[str, Imprint], *, greedy: bool
) -> str | None:
    """Why answers cannot be those of this model; None where they may.

    Args:
        answers: By prompt.
        reference: The reference's.
        greedy: Whether both took the likeliest token each time, so that they have to begin alike.
    """
    found = {name: garbage(answer, reference.get(name)) for name, answer in answers.items()}
    said = [why for why in found.values() if why is not None]
    if said and 2 * len(said) > len(found):
        return f"{len(said)} of {len(found)} answers are no language: {said[0]}"
    both = [name for name in answers if name in reference and reference[name].visible]
    alike = any(answers[name].beginning == reference[name].beginning for name in both)
    if greedy and len(both) >= _LEAST_ANSWERS and not alike:
        return f"none of {len(both)} answers begins as the reference's"
    return None


def agreement(answers: Mapping[str, Imprint], reference: Mapping[str, Imprint]) -> float | None:
    """Mean part of the reference's answers, in words, before the first that differs; None without any in common."""
    parts = []
    for name, answer in answers.items():
        theirs = reference[name].words if name in reference else ()
        if theirs:
            parts.append(_common(answer.words, theirs) / len(theirs))
    return sum(parts) / len(parts) if parts else None


def _common(words: Sequence[str], others: Sequence[str]) -> int:
    n = 0
    for one, other in zip(words, others, strict=False):
        if one != other:
            break
        n += 1
    return n
