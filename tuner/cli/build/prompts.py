"""What is said of a prompt set, and what of it is written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.core.workload import PromptSet


def left_out(prompt_set: PromptSet) -> Iterator[str]:
    """What was left out of a set while it was read, a sentence each."""
    origin, of = prompt_set.origin, f"of {prompt_set.origin.found:,} conversations of {prompt_set.name}"
    if origin.without_user:
        yield f"{origin.without_user:,} {of} are left out: no user says anything in them"
    if origin.repeated:
        yield f"{origin.repeated:,} {of} are left out: they are there already"


def prompt_facts(prompt_set: PromptSet) -> dict[str, Any]:
    """What a study's readers need to know of its prompts: never what they say."""
    origin = prompt_set.origin
    return {
        "digest": prompt_set.digest,
        "form": origin.form.value,
        "found": origin.found,
        "without_user": origin.without_user,
        "repeated": origin.repeated,
        "too_long": origin.too_long,
        "sampled": origin.sampled,
    }
