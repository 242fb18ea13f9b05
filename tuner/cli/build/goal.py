"""What the user wants the most of: the objective, the weights of classes, the limit of the first token."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.cli.option_values import duration_s, tokens
from tuner.core.objective import FirstTokenLimit, Goal, Objective
from tuner.errors import UsageError
from tuner.prompts.agents import agent_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.cli.build.options import TuneOptions
    from tuner.core.session import Script


def goal_of(options: TuneOptions) -> Goal:
    """The goal, as typed.

    Raises:
        UsageError: A part of it is not understood.
    """
    objective = Objective.TURN if options.session else Objective.GENERATION
    return Goal(
        objective=objective if options.objective is None else options.objective,
        weights=MappingProxyType({} if options.weights is None else weights_of(options.weights)),
        first_token=None if options.max_ttft is None else _limit(options.max_ttft),
    )


def session_of(options: TuneOptions, goal: Goal, *, n_ctx_slot: int) -> Script | None:
    """The session, where one was asked for.

    Args:
        options: As typed.
        goal: What is made the most of.
        n_ctx_slot: Tokens that a slot holds.

    Raises:
        UsageError: It does not fit, or options do not go together.
    """
    if not options.session:
        if options.agents > 1:
            raise UsageError("--agents: only a session has agents; add --workload session")
        return None
    for name, given in (("--depth", options.depth != "0"), ("--max-ttft", goal.first_token is not None)):
        if given:
            raise UsageError(f"{name}: a session is as deep as it is; leave it out with --workload session")
    if goal.objective is Objective.THROUGHPUT:
        raise UsageError(
            "--objective throughput: a session's turns follow each other; use turn or generation"
        )
    script = agent_session(options.agents)
    needed = script.needed_tokens(options.max_tokens)
    if needed > n_ctx_slot:
        raise UsageError(
            f"--workload session: it becomes about {needed:,} tokens long, and a slot holds {n_ctx_slot:,}; "
            "raise --context or lower --tokens"
        )
    return script


def depths_of(text: str) -> tuple[int, ...]:
    """Tokens of `0,8k,32k`.

    Raises:
        UsageError: A part is no number of tokens.
    """
    parts = [part.strip() for part in text.split(",")]
    return tuple(0 if part == "0" else tokens(part, "--depth") for part in parts)


def _limit(text: str) -> FirstTokenLimit:
    seconds, sign, depth = text.partition("@")
    if not sign:
        raise UsageError(f"--max-ttft: {text!r} is not understood; write TIME@TOKENS, such as 2s@8k")
    return FirstTokenLimit(duration_s(seconds, "--max-ttft"), tokens(depth, "--max-ttft"))


def check_streams(goal: Goal, streams: int) -> None:
    """Refuse what makes no sense together.

    Raises:
        UsageError: There is only one stream to add up, or classes are weighed where all are asked at once.
    """
    if goal.objective is not Objective.THROUGHPUT:
        return
    if streams < 2:
        raise UsageError("--objective throughput: say for how many requests at once, such as --parallel 4")
    if goal.weights:
        raise UsageError(
            "--weights: throughput adds up all slots together, so classes count as often as they are asked; choose "
            "them with --prompts"
        )


def weights_of(text: str) -> Mapping[str, float]:
    """Weights by class out of `code=3,prose=1`.

    Raises:
        UsageError: It is not of that form, or nothing counts.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, sign, number = part.strip().partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not name or not sign or not 0 <= weight < float("inf"):
            raise UsageError(
                f"--weights: {part.strip()!r} is not understood; write CLASS=NUMBER, such as code=3,prose=1"
            )
        found[name] = weight
    if not any(found.values()):
        raise UsageError("--weights: at least one class has to count")
    return {name: weight for name, weight in found.items() if weight > 0}
