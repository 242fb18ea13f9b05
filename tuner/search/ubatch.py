"""The best so far with a ubatch a step larger or smaller: how fast a prompt is read hangs on it, and little else."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tuner.core.space import Choice
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.candidate import Candidate
    from tuner.search.coordinates import BoundSpace

_NAME, _BATCH = "ubatch-size", "batch-size"


def with_another_ubatch(
    best: Candidate, bound: BoundSpace, is_out: Callable[[Candidate], bool]
) -> Candidate | None:
    """A neighbour of a candidate that is still open, the larger one first; None where there is none.

    Args:
        best: The candidate.
        bound: The space on the rig.
        is_out: Whether a candidate is out of the question: tried, against a rule, or too large.
    """
    sizes = _sizes(bound, _NAME)
    own = best.get(_NAME)
    if not isinstance(own, int) or own not in sizes:
        return None
    place = sizes.index(own)
    for size in (*sizes[place + 1 : place + 2], *reversed(sizes[max(place - 1, 0) : place])):
        options = {**best.options, _NAME: size}
        batches = [batch for batch in _sizes(bound, _BATCH) if batch >= size]
        if batches and isinstance(options.get(_BATCH), int) and cast("int", options[_BATCH]) < size:
            options[_BATCH] = batches[0]
        candidate = complete(bound, options)
        if not is_out(candidate):
            return candidate
    return None


def _sizes(bound: BoundSpace, name: str) -> list[int]:
    """The values of an option that a space varies, the smallest first."""
    parameter = bound.space.parameter(name)
    if name in bound.imposed or not isinstance(parameter, Choice):
        return []
    return sorted(cast("tuple[int, ...]", parameter.choices))
