"""The workload: which prompts, how many tokens, which samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.cli.build.asking import Asking
from tuner.cli.build.goal import check_streams, depths_of, goal_of, session_of
from tuner.core.objective import Objective
from tuner.core.workload import Sampling, Workload
from tuner.engine.user_command import parse_sampling
from tuner.errors import UsageError
from tuner.prompts.reader import load_prompts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.cli.build.options import TuneOptions
    from tuner.core.model import ModelFile
    from tuner.engine.user_command import UserCommand

#: Left free beside the longest prompt: the chat template, and the question.
SPARE_TOKENS = 256

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
    n_slots: int,
    note: Callable[[str], None],
) -> Workload:
    """What each launch is asked.

    Args:
        options: As typed.
        current: The user's own command; None for none.
        model: The model.
        n_ctx_slot: Tokens that a slot holds.
        n_slots: Slots of each launch.
        note: Is told what is left out.

    Raises:
        PromptError: The prompt set cannot be read.
        UsageError: No prompt fits, or the samplers are not understood.
    """
    prompt_set, goal = load_prompts(options.prompts), goal_of(options)
    session = session_of(options, goal, n_ctx_slot=n_ctx_slot)
    streams = n_slots if goal.objective is Objective.THROUGHPUT else 1
    check_streams(goal, streams)
    asking = Asking(
        goal=goal,
        requests=options.requests,
        sample=options.sample,
        seed=options.seed,
        max_tokens=options.max_tokens,
        depths_tokens=depths_of(options.depth),
        streams=streams,
        n_ctx_slot=n_ctx_slot,
    )
    limit = goal.first_token
    if limit is not None and limit.tokens + SPARE_TOKENS > n_ctx_slot:
        raise UsageError(
            f"--max-ttft: a prompt of {limit.tokens:,} tokens does not fit into {n_ctx_slot:,} tokens of context; "
            "raise --context"
        )
    return Workload(
        prompt_set=asking.chosen(prompt_set, note),
        max_tokens=options.max_tokens,
        sampling=_sampling(options, current, model),
        thinking=options.thinking,
        seed=options.seed,
        goal=goal,
        streams=streams,
        session=session,
    )


def _sampling(options: TuneOptions, current: UserCommand | None, model: ModelFile) -> Sampling:
    """As the model will be served: the option, else the user's command, else the model's own, else greedy."""
    if options.sampling is not None:
        return parse_sampling(options.sampling)
    if current is not None and current.sampling.values:
        return current.sampling
    own = {_MODEL_SAMPLERS[k]: value for k, value in model.sampling.items() if k in _MODEL_SAMPLERS}
    return Sampling(own, source="model") if own else Sampling()
