"""The best so far with one option a step larger or smaller: for what the speed model knows nothing of.

How fast a prompt is read hangs on the ubatch, and what of a conversation is kept on slots and caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.slots import parallel_of
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.search.coordinates import BoundSpace

#: Options that count where prompts do, in the order in which they are tried.
OF_PROMPTS = ("ubatch-size", "parallel", "cache-ram", "cache-reuse", "ctx-checkpoints", "kv-unified")
#: The same where the host multiplies with what lies in its memory.
OF_HOST = ("threads", "no-host")
_UBATCH, _BATCH, _UNIFIED = "ubatch-size", "batch-size", "kv-unified"


def neighbour(
    best: Candidate,
    bound: BoundSpace,
    is_out: Callable[[Candidate], bool],
    names: Sequence[str] = OF_PROMPTS,
) -> Candidate | None:
    """A neighbour of a candidate that is still open, the larger value first; None where there is none.

    Args:
        best: The candidate.
        bound: The space on the rig.
        is_out: Whether a candidate is out of the question: tried, against a rule, or too large.
        names: Options, in the order in which they are tried.
    """
    for name in names:
        if name == _UNIFIED and parallel_of(best.options) == 1:
            continue  # one slot has nobody to share with
        for value in _beside(best.get(name), _values(bound, name)):
            candidate = complete(bound, _with_room({**best.options, name: value}, bound))
            if not is_out(candidate):
                return candidate
    return None


def _beside(own: Value | None, values: list[Value]) -> list[Value]:
    """The next larger and the next smaller one."""
    if own not in values:
        return []
    place = values.index(own)
    return [*values[place + 1 : place + 2], *values[max(place - 1, 0) : place]]


def _with_room(options: dict[str, Value], bound: BoundSpace) -> dict[str, Value]:
    """A batch is no smaller than its ubatch."""
    size, batch = options.get(_UBATCH), options.get(_BATCH)
    if isinstance(size, int) and isinstance(batch, int) and batch < size:
        larger = [one for one in _values(bound, _BATCH) if isinstance(one, int) and one >= size]
        options[_BATCH] = larger[0] if larger else batch
    return options


def _values(bound: BoundSpace, name: str) -> list[Value]:
    """The values of an option that a space varies, the smallest first."""
    choices = () if name in bound.imposed else bound.space.choices(name)
    return sorted(choices, key=lambda value: value if isinstance(value, int | float) else 0)
