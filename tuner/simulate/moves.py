"""Moving parts of a split from device to device."""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def on_grid(split: tuple[int, ...], steps: int) -> tuple[int, ...]:
    """The nearest split in so many parts in which each device has one."""
    shares = [part * steps / sum(split) for part in split]
    parts = [max(int(share), 1) for share in shares]
    while sum(parts) != steps:
        step = 1 if sum(parts) < steps else -1
        open_ones = [at for at, part in enumerate(parts) if part + step >= 1]
        parts[max(open_ones, key=lambda at: step * (shares[at] - parts[at]))] += step
    return tuple(parts)


def neighbours(parts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Splits in which some parts are with another device."""
    for size, (giver, taker) in product((1, 2, 4), permutations(range(len(parts)), 2)):
        if parts[giver] > size:
            changed = list(parts)
            changed[giver] -= size
            changed[taker] += size
            yield tuple(changed)
