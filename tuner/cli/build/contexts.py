"""How much context: one number, or a ladder of them."""

from __future__ import annotations

from tuner.cli.option_values import tokens
from tuner.core.ladder import MAX, Contexts
from tuner.errors import UsageError


def contexts_of(text: str | None) -> Contexts:
    """Tokens of `16k`, `16k,64k,max`; none where nothing was said.

    Raises:
        UsageError: A part is no number of tokens, or the same as another.
    """
    if text is None:
        return Contexts((), with_max=False)
    parts = [part.strip() for part in text.split(",")]
    found = [tokens(part) for part in parts if part != MAX]
    if len(set(found)) < len(found) or parts.count(MAX) > 1:
        raise UsageError(f"--context {text}: a context is there twice; give each once")
    return Contexts(tuple(sorted(found)), with_max=MAX in parts)
