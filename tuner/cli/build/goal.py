"""What the user wants the most of: the objective, the weights of classes, the limit of the first token."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.cli.option_values import duration_s, tokens
from tuner.core.objective import FirstTokenLimit, Goal, Objective
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.cli.build.options import TuneOptions


def goal_of(options: TuneOptions) -> Goal:
    """The goal, as typed.

    Raises:
        UsageError: A part of it is not understood.
    """
    return Goal(
        objective=options.objective,
        weights=MappingProxyType({} if options.weights is None else weights_of(options.weights)),
        first_token=None if options.max_ttft is None else _limit(options.max_ttft),
    )


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
