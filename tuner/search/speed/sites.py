"""Where a model can lie."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.core.assignment.splits import Splits

#: More splits of one list of devices than this are thinned out.
_MOST_SPLITS = 1_000


@dataclass(frozen=True, slots=True)
class Site:
    """A split mode, devices in order, and a split."""

    mode: str
    devices: tuple[str, ...]
    split: tuple[int, ...]
    """Empty where one device has all, or where nothing says: then it counts as even."""
    in_ram: tuple[int, ...] = ()
    """Layers whose experts, or feed-forward parts, lie in host memory."""


def sites(
    splits: Splits,
    names: tuple[str, ...],
    *,
    modes: tuple[str, ...],
    tensor_steps: int,
    orders: bool,
    subsets: bool,
    only: tuple[int, ...] | None = None,
) -> Iterator[Site]:
    """All sites of a space, every physically different split once.

    Args:
        splits: The model's.
        names: The rig's devices.
        modes: Split modes of the space.
        tensor_steps: Parts of a split in tensor mode.
        orders: Whether other orders than the engine's are tried.
        subsets: Whether devices may be left out.
        only: The split of a space that varies none, empty where it has none at all; None where it varies it.
    """
    if "none" in modes or len(names) == 1:
        for name in names:
            yield Site("none", (name,), ())
    sizes = range(2, len(names) + 1) if subsets else (len(names),)
    arrange = permutations if orders else combinations
    for n in sizes:
        if n < 2:
            continue
        for mode in ("layer", "tensor"):
            if mode not in modes:
                continue
            # in tensor mode an order only moves which device comes first in rounding; of more than two devices
            # there are so many splits that an order adds nothing but which has the output
            lists = arrange(names, n) if mode == "layer" and n == 2 else combinations(names, n)
            steps = splits.n_units if mode == "layer" else tensor_steps
            for devices in lists:
                for split in (
                    _splits(splits, mode, n, steps) if only is None else _given(splits, mode, n, only)
                ):
                    yield Site(mode, tuple(devices), split)


def _splits(splits: Splits, mode: str, n: int, steps: int) -> tuple[tuple[int, ...], ...]:
    """All different splits, or evenly thinned out where there are too many."""
    while n > 2 and steps > n + 1 and _count(n, steps) > _MOST_SPLITS:
        steps = max(steps * 2 // 3, n + 1)
    return splits.distinct(mode, n, steps)


def _given(splits: Splits, mode: str, n: int, only: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The one split that there is; nothing where it is one of other devices."""
    if not any(only):
        return ((),)
    return (splits.simplest(mode, only),) if len(only) == n else ()


def _count(n: int, steps: int) -> int:
    """In how many ways so many steps are dealt out to n devices."""
    ways = 1
    for place in range(1, n):
        ways = ways * (steps - place) // place
    return ways
