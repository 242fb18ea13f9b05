"""Which prompts of a set are asked, what is said of the others, and what of them is written down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.prompts.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tuner.cli.build.options import TuneOptions
    from tuner.core.workload import Prompt, PromptSet

DEFAULT_REQUESTS = 5


def chosen(
    prompt_set: PromptSet,
    fitting: Sequence[Prompt],
    options: TuneOptions,
    *,
    length: Callable[[Prompt], int],
    note: Callable[[str], None],
) -> PromptSet:
    """The set with the prompts of it that are asked, the first of those that fit or of a sample of them."""
    origin = replace(prompt_set.origin, too_long=len(prompt_set.prompts) - len(fitting))
    requests, name, n = options.requests, prompt_set.name, len(fitting)
    if options.sample is not None:
        if n < options.sample:
            note(f"--sample {options.sample:,}: {name} has {n:,} prompts that fit, and all are taken")
        fitting = sampled(fitting, options.sample, seed=options.seed, length=length)
        origin = replace(origin, sampled=len(fitting))
        requests = requests or len(fitting)
    elif requests is None:
        requests = DEFAULT_REQUESTS
        if origin.is_own and n > requests:
            note(
                f"the first {requests} of {n:,} prompts of {name} are asked; "
                "--sample N draws N of them, short and long"
            )
    return replace(prompt_set, prompts=tuple(fitting[:requests]), origin=origin)


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
