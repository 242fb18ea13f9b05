"""When a candidate that is being measured cannot catch the best any more.

Requests are compared prompt by prompt with the best trial so far, so that a hard prompt does not count against
anybody. Noise has two parts: that of each request, which grows with the draft depth, and that of a launch, which
all its requests share. Only what is slower beyond three standard deviations of both together is given up.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING

from tuner.core.measurement import counted
from tuner.core.objective import GENERATION, Goal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.measurement import Sample

#: Standard deviations of the logarithm of a rate: of a request, what a drafted token adds, and of a launch.
REQUEST_SIGMA, DRAFT_SIGMA, LAUNCH_SIGMA = 0.03, 0.006, 0.025
_SURE = 3.0


def paired_log_ratio(
    samples: Sequence[Sample], best: Sequence[Sample], goal: Goal = GENERATION
) -> tuple[float, int] | None:
    """Mean logarithm of a candidate's rate over the best's on the same prompts, and on how many; None on none.

    Classes count as the goal weighs them.
    """
    rates = {sample.prompt_id: goal.request_tok_s(sample) for sample in best if counted(sample)}
    ratios = [
        (log(own / other), goal.weights.get(sample.prompt_class, 0.0) if goal.weights else 1.0)
        for sample in samples
        if (own := goal.request_tok_s(sample)) is not None
        and (other := rates.get(sample.prompt_id)) is not None
    ]
    total = sum(weight for _, weight in ratios)
    return (sum(ratio * weight for ratio, weight in ratios) / total, len(ratios)) if total > 0 else None


def why_hopeless(
    samples: Sequence[Sample],
    best: Sequence[Sample],
    *,
    n_prompts: int,
    depths: tuple[int, int],
    goal: Goal = GENERATION,
) -> str | None:
    """Why measuring on is no use; None where it may catch up, or has nearly been measured in full.

    Args:
        samples: The candidate's answers so far.
        best: The best trial's.
        n_prompts: Requests of a launch.
        depths: Tokens drafted at a time, the candidate's and the best's.
        goal: What is made the most of.
    """
    found = paired_log_ratio(samples, best, goal)
    if found is None or len(samples) >= n_prompts:
        return None
    ratio, n = found
    request = sum((REQUEST_SIGMA + DRAFT_SIGMA * depth) ** 2 for depth in depths) / n
    if ratio + _SURE * sqrt(request + 2 * LAUNCH_SIGMA**2) >= 0:
        return None
    return f"{exp(ratio):.0%} of the best after {n} of {n_prompts} requests"
