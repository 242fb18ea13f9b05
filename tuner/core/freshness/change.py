"""One part of what a result depends on: as it was, or what has changed and what that puts in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Freshness(StrEnum):
    """How far a result can be relied on."""

    FRESH = "fresh"
    """Nothing that it depends on has changed."""
    DOUBTFUL = "doubtful"
    """Something has changed that can move it; only a launch tells."""
    STALE = "stale"
    """It does not hold for what there is now."""


_BY_DEGREE = tuple(Freshness)


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be said of one part."""

    part: str
    """`engine`, `driver`, `devices`, `power`, `link`, `model`, `prompts`, `samplers`, `objective`, ..."""
    state: Freshness
    what: str
    """What there is, or what has become of it."""
    doubt: str = ""
    """What of the result that puts in doubt; empty where nothing has changed."""


def worst(changes: Iterable[Change]) -> Freshness:
    """How far a result can be relied on, all parts together."""
    return max((change.state for change in changes), key=_BY_DEGREE.index, default=Freshness.FRESH)
