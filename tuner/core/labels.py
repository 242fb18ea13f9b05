"""Short names for files that have long paths: what tells them apart, and no more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNFIT = re.compile(r"[^\w.+-]+")


def short_names(paths: Sequence[Sequence[str]]) -> list[str]:
    """A name for each path, by the last parts in which they differ, fit for a folder's name.

    `/opt/b1/bin/llama-server` and `/opt/b2/bin/llama-server` are `b1` and `b2`. A single path, and paths that are
    equal, are called by their last part.

    Args:
        paths: Each in its parts, such as `Path.parts`.
    """
    rows = [tuple(part for part in path if part.strip("/")) for path in paths]
    while len(rows) > 1 and all(len(row) > 1 for row in rows) and len({row[-1] for row in rows}) == 1:
        rows = [row[:-1] for row in rows]
    longest = max((len(row) for row in rows), default=1)
    for count in range(1, longest + 1):
        names = [_fit("-".join(row[-count:])) for row in rows]
        if len(set(names)) == len(set(rows)):
            return names
    return [_fit("-".join(row)) for row in rows]


def _fit(name: str) -> str:
    """What of it may be in a folder's name."""
    return _UNFIT.sub("-", name).strip("-.") or "unnamed"
