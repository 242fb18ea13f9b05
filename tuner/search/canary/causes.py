"""Which of the options of a configuration that has become slower, or faster, are behind it, as far as launches tell.

What has changed alike has its options in common; what has not clears those that it has. What is left is suspected.
Where that is more than one, the launch that would tell most is one that has about half of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, log
from typing import TYPE_CHECKING

from tuner.core.options import ALLREDUCE, BASE_OPTIONS, OVERRIDES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value

#: Options that are places or go without saying: no build is slower for one of them alone.
_NEVER_AT_FAULT = frozenset({"tensor-split", "fit", "device", "spec-draft-model", "flash-attn"})
#: What an engine does when it is told nothing else: no build is slower for it alone.
_USUAL: Mapping[str, Value] = {
    **BASE_OPTIONS,
    "spec-draft-type-k": "f16",
    "spec-draft-type-v": "f16",
    ALLREDUCE: "nccl",
}
#: A configuration that has lost, or gained, more than this part of what the best has is one that has changed alike.
_ALIKE = 0.5
#: Factors that differ by less than this, as a part, agree, and so do those within so many standard deviations.
AGREEING = 0.05
_CLEARLY = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """How a configuration has changed."""

    options: Mapping[str, Value]
    ratio: float
    """Now over then."""
    sigma: float = 0.0
    """Standard deviation of the logarithm of the ratio."""


def traits(options: Mapping[str, Value]) -> frozenset[str]:
    """What may be behind a change: `split-mode tensor`, `cache-type-k q8_0`, ..., `several devices`."""
    found = {
        name if name in OVERRIDES else f"{name} {value}"
        for name, value in options.items()
        if name not in _NEVER_AT_FAULT
        and (
            name in OVERRIDES or isinstance(value, str | bool)
        )  # a size is on a scale, and not behind it alone
        and value not in {"", False}
        and (value != _USUAL.get(name) or name == "split-mode")
    }
    if options.get("cache-type-k") == options.get("cache-type-v"):
        quantised = {
            f"cache-type-k {options.get('cache-type-k')}",
            f"cache-type-v {options.get('cache-type-v')}",
        }
        if quantised <= found:
            found = (found - quantised) | {f"a {options.get('cache-type-k')} KV cache"}
    devices = options.get("device")
    if options.get("split-mode") != "none" and not (isinstance(devices, tuple) and len(devices) == 1):
        found.add("several devices")
    return frozenset(found)


def differ(one: Seen, other: Seen) -> bool:
    """Whether two configurations have changed by different factors: by more than noise, and than matters."""
    apart = abs(log(one.ratio / other.ratio))
    return apart > max(log(1 + AGREEING), _CLEARLY * hypot(one.sigma, other.sigma))


def changed_alike(one: Seen, best: Seen) -> bool:
    """Whether a configuration has lost, or gained, about as much as the best has."""
    whole = log(best.ratio)
    return log(one.ratio) / whole > _ALIKE if whole else True


def suspects(best: Seen, others: Iterable[Seen]) -> frozenset[str]:
    """Traits of the best that may be behind its change.

    Args:
        best: What was best, which is not as fast as it was.
        others: Other configurations of which it is known how they have changed.
    """
    left = set(traits(best.options))
    for one in others:
        if changed_alike(one, best):
            left &= traits(one.options)
        else:
            left -= traits(one.options)
    return frozenset(left)


def telling(
    suspected: Collection[str], candidates: Sequence[Candidate], *, launched: Collection[str]
) -> Candidate | None:
    """The candidate whose launch would tell most; None where none tells anything.

    Args:
        suspected: From `suspects`.
        candidates: Of which it is known how fast they were, the fastest first.
        launched: Keys of what was launched already.
    """
    if len(suspected) < 2:
        return None
    halves = [
        (abs(2 * len(traits(one.options) & set(suspected)) - len(suspected)), place)
        for place, one in enumerate(candidates)
        if one.key() not in launched and 0 < len(traits(one.options) & set(suspected)) < len(suspected)
    ]
    return candidates[min(halves)[1]] if halves else None
