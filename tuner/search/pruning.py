"""When a candidate that is being measured cannot catch the best any more.

Requests are compared prompt by prompt with the best trial so far, so that a hard prompt does not count against
anybody. Noise has two parts: that of each request, which grows with the draft depth, and that of a launch, which
all its requests share. Only what is slower beyond three standard deviations of both together is given up.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.measurement import Sample

#: Standard deviations of the logarithm of a rate: of a request, what a drafted token adds, and of a launch.
REQUEST_SIGMA, DRAFT_SIGMA, LAUNCH_SIGMA = 0.03, 0.006, 0.025
_SURE = 3.0


def paired_log_ratio(samples: Sequence[Sample], best: Sequence[Sample]) -> tuple[float, int] | None:
    """Mean logarithm of a candidate's rate over the best's on the same prompts, and on how many; None on none."""
    rates = {sample.prompt_id: sample.generation_tok_s for sample in best}
    ratios = [
        log(own / other)
        for sample in samples
        if (own := sample.generation_tok_s) is not None and (other := rates.get(sample.prompt_id)) is not None
    ]
    return (sum(ratios) / len(ratios), len(ratios)) if ratios else None


def why_hopeless(
    samples: Sequence[Sample], best: Sequence[Sample], *, n_prompts: int, depths: tuple[int, int]
) -> str | None:
    """Why measuring on is no use; None where it may catch up, or has nearly been measured in full.

    Args:
        samples: The candidate's answers so far.
        best: The best trial's.
        n_prompts: Requests of a launch.
        depths: Tokens drafted at a time, the candidate's and the best's.
    """
    found = paired_log_ratio(samples, best)
    if found is None or len(samples) >= n_prompts:
        return None
    ratio, n = found
    request = sum((REQUEST_SIGMA + DRAFT_SIGMA * depth) ** 2 for depth in depths) / n
    if ratio + _SURE * sqrt(request + 2 * LAUNCH_SIGMA**2) >= 0:
        return None
    return f"{exp(ratio):.0%} of the best after {n} of {n_prompts} requests"
