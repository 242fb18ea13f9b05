"""A sample of prompts in which short and long ones are mixed as in the whole."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.workload import Prompt


def sampled(
    prompts: Sequence[Prompt], n: int, *, seed: int, length: Callable[[Prompt], int]
) -> tuple[Prompt, ...]:
    """So many of them, in their order; all where there are no more.

    Sorted by length they are cut into n strata, equal but for one prompt, and one is drawn from each: the
    sample has the whole's mix of lengths, which chance alone would miss with few.
    """
    ranks = sorted(range(len(prompts)), key=lambda at: length(prompts[at]))
    n = min(n, len(prompts))
    generator = random.Random(seed)  # noqa: S311 - it has to be repeatable, not secret
    drawn = []
    for stratum in range(n):
        low, high = stratum * len(ranks) // n, (stratum + 1) * len(ranks) // n
        # of the generator's methods only random() is promised to stay the same in other versions of Python
        drawn.append(ranks[low + int(generator.random() * (high - low))])
    return tuple(prompts[at] for at in sorted(drawn))
