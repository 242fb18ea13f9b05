"""Does several things at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")


def at_once(actions: Sequence[Callable[[], _T]]) -> list[_T]:
    """Their results, in the order of the actions."""
    with ThreadPoolExecutor(len(actions)) as pool:
        return [one.result() for one in [pool.submit(action) for action in actions]]
