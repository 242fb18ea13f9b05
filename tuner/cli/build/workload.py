"""The workload: which prompts, how many tokens, which samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.cli.build.prompts import chosen, left_out
from tuner.core.workload import Prompt, Sampling, Workload
from tuner.engine.user_command import parse_sampling
from tuner.errors import UsageError
from tuner.prompts.reader import load_prompts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.cli.build.options import TuneOptions
    from tuner.core.model import ModelFile
    from tuner.engine.user_command import UserCommand

#: About so many characters are a token; few on purpose, since a prompt that is too long is refused.
CHARACTERS_A_TOKEN = 3

#: Samplers in a model's metadata (llama-model.cpp:3252), and the request's field for each.
_MODEL_SAMPLERS = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "repeat_last_n",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}


def build_workload(
    options: TuneOptions,
    current: UserCommand | None,
    model: ModelFile,
    *,
    n_ctx_slot: int,
    note: Callable[[str], None],
) -> Workload:
    """The first prompts of the set that fit into a slot's context.

    Raises:
        PromptError: The prompt set cannot be read.
        UsageError: No prompt fits, or the samplers are not understood.
    """
    prompt_set = load_prompts(options.prompts)
    fitting = [p for p in prompt_set.prompts if _tokens(p) + options.max_tokens <= n_ctx_slot]
    too_long = len(prompt_set.prompts) - len(fitting)
    if not fitting:
        raise UsageError(
            f"no prompt of {prompt_set.name} with {options.max_tokens} tokens of answer fits into "
            f"{n_ctx_slot:,} tokens of context; raise --context, lower --tokens, or use --prompts short"
        )
    for line in left_out(prompt_set):
        note(line)
    if too_long:
        note(
            f"{too_long} prompts of {prompt_set.name} do not fit into {n_ctx_slot:,} tokens and are left out"
        )
    return Workload(
        prompt_set=chosen(prompt_set, fitting, options, length=_tokens, note=note),
        max_tokens=options.max_tokens,
        sampling=_sampling(options, current, model),
        thinking=options.thinking,
        seed=options.seed,
    )


def _sampling(options: TuneOptions, current: UserCommand | None, model: ModelFile) -> Sampling:
    """As the model will be served: the option, else the user's command, else the model's own, else greedy."""
    if options.sampling is not None:
        return parse_sampling(options.sampling)
    if current is not None and current.sampling.values:
        return current.sampling
    own = {_MODEL_SAMPLERS[k]: value for k, value in model.sampling.items() if k in _MODEL_SAMPLERS}
    return Sampling(own, source="model") if own else Sampling()


def _tokens(prompt: Prompt) -> int:
    characters = sum(len(str(message.get("content", ""))) for message in prompt.messages)
    return characters // CHARACTERS_A_TOKEN + 16 * len(prompt.messages)
