"""The largest context with which a model fits: by prediction, before anything is launched."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from tuner.core.memory.need import chance_to_fit
from tuner.core.options import ALLREDUCE, KV_BITS
from tuner.core.space import InRam, broken_rule
from tuner.search.coordinates import complete
from tuner.search.speed.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.core.candidate import Candidate
    from tuner.core.memory.need import Prediction
    from tuner.core.options import Value
    from tuner.search.coordinates import BoundSpace

#: Contexts are told apart in steps of so many tokens.
STEP_TOKENS = 1024
#: What fits with less than this probability is not counted on.
SURE = 0.9


def largest_context(
    bound_at: Callable[[int], BoundSpace],
    predict: Callable[[Candidate], Prediction],
    room_mib: Mapping[str, float],
    *,
    most_tokens: int,
) -> int | None:
    """The largest context that something in the space fits with, in tokens; None where nothing does.

    Args:
        bound_at: The space at a context.
        predict: What a candidate needs.
        room_mib: What may be used of each device, by name.
        most_tokens: What the model was trained for.
    """

    def fits(steps: int) -> bool:
        return most_modest(bound_at(steps * STEP_TOKENS), predict, room_mib)[1] >= SURE

    return _most(fits, 0, max(most_tokens // STEP_TOKENS, 1)) * STEP_TOKENS or None


def largest_with(
    candidate: Candidate,
    predict: Callable[[Candidate], Prediction],
    room_mib: Mapping[str, float],
    *,
    most_tokens: int,
) -> int:
    """The largest context that a candidate is expected to fit with, in tokens; its own at least.

    Args:
        candidate: Which has run with its own context.
        predict: What a candidate needs.
        room_mib: What may be used of each device, by name.
        most_tokens: What the model was trained for.
    """
    own = candidate.get("ctx-size")
    least = own if isinstance(own, int) else 0

    def fits(steps: int) -> bool:
        longer = candidate.with_options({"ctx-size": steps * STEP_TOKENS})
        return chance_to_fit(predict(longer), room_mib) >= SURE

    return max(least, _most(fits, least // STEP_TOKENS, most_tokens // STEP_TOKENS) * STEP_TOKENS)


def most_modest(
    bound: BoundSpace, predict: Callable[[Candidate], Prediction], room_mib: Mapping[str, float]
) -> tuple[Candidate | None, float]:
    """What is likeliest to fit, of all splits with the smallest cache and buffers and no drafts; and how likely."""
    best: tuple[Candidate | None, float] = (None, 0.0)
    rank = (-inf, -inf)
    for candidate in _modest(bound):
        prediction = predict(candidate)
        chance = chance_to_fit(prediction, room_mib)
        over = (max(need.total - room_mib.get(name, inf), 0.0) for name, need in prediction.devices.items())
        if (own := (chance, -sum(over))) > rank:
            best, rank = (candidate, chance), own
    return best


def _most(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The most steps that fit, up to `high`; `low` where none above it do. More never need less."""
    if high <= low or fits(high):
        return max(high, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _modest(bound: BoundSpace) -> list[Candidate]:
    """All sites of the space, each with what takes least memory."""
    pool = Pool(bound)
    small = _smallest(bound)
    in_ram: dict[str, Value] = {}
    if isinstance(bound.space.parameter("override-tensor"), InRam):
        in_ram = bound.splits.host_parts.options(bound.splits.host_parts.every_layer)
    places = {site: place for place, (site, _) in reversed(list(enumerate(pool.entries)))}
    found = (complete(bound, {**pool.options(place), **small, **in_ram}) for place in sorted(places.values()))
    return [candidate for candidate in found if broken_rule(bound.space, candidate.options) is None]


def _smallest(bound: BoundSpace) -> dict[str, Value]:
    """Values that take least memory, of the options that a space varies."""
    small: dict[str, Value] = {}
    for name in ("cache-type-k", "cache-type-v"):
        types = bound.space.choices(name)
        if types:
            small[name] = min(types, key=lambda kind: KV_BITS.get(str(kind), 16.0))
    sizes = [one for one in bound.space.choices("ubatch-size") if isinstance(one, int)]
    if sizes:
        small["ubatch-size"] = min(sizes)
    if "none" in bound.space.choices("spec-type"):
        small["spec-type"] = "none"
    if "internal" in bound.space.choices(ALLREDUCE):
        small[ALLREDUCE] = "internal"  # NCCL takes memory of its own
    slots = [one for one in bound.space.choices("parallel") if isinstance(one, int)]
    if slots:
        small["parallel"] = min(slots)
    return small
