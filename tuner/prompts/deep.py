"""Prompts that come deep in a context: behind a text of no interest, always the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.measurement import FIRST_ONLY
from tuner.core.workload import Prompt
from tuner.prompts.passages import filler

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Of the ledger that fills a context: how many it really are a server says with each answer.
CHARACTERS_A_TOKEN = 2.6
_ASK = "Here is the harbour's ledger so far. Keep it in mind; what comes next has nothing to do with it."
_READ = "I have read it."


def deepened(prompts: Sequence[Prompt], depths_tokens: Sequence[int]) -> tuple[Prompt, ...]:
    """Each prompt at each depth, the shallowest first; all of one depth have the same beginning.

    Args:
        prompts: The prompts themselves.
        depths_tokens: About how many tokens come before them; 0 for none.
    """
    found: list[Prompt] = []
    for depth in sorted(set(depths_tokens)):
        found += prompts if not depth else [_behind(prompt, depth) for prompt in prompts]
    return tuple(found)


def first_token_prompt(tokens: int) -> Prompt:
    """A prompt of about so many tokens, of whose answer only the first token is of interest."""
    text = filler(round(tokens * CHARACTERS_A_TOKEN))
    messages = ({"role": "user", "content": f"{text}\nWhich boat came in first?"},)
    return Prompt(f"{FIRST_ONLY}@{tokens}", FIRST_ONLY, messages)


def _behind(prompt: Prompt, depth_tokens: int) -> Prompt:
    ledger = filler(round(depth_tokens * CHARACTERS_A_TOKEN))
    before = ({"role": "user", "content": f"{_ASK}\n\n{ledger}"}, {"role": "assistant", "content": _READ})
    has_system = prompt.messages[0].get("role") in {"system", "developer"}
    head, rest = (prompt.messages[:1], prompt.messages[1:]) if has_system else ((), prompt.messages)
    # the system's message differs from prompt to prompt: behind the ledger, or nothing of it could be reused
    own = [{"role": "user", "content": message["content"]} for message in head]
    own += [{"role": "assistant", "content": "Understood."}] if head else []
    return replace(
        prompt,
        id=f"{prompt.id}@{depth_tokens}",
        messages=(*before, *own, *rest),
        depth_tokens=depth_tokens,
        reuses=True,
    )
