"""A command's words in groups that read well: a flag and its value on a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLAG = re.compile(r"--?[A-Za-z]")


def grouped(words: Sequence[str]) -> list[list[str]]:
    """The words in their order, a new group at each that looks like a flag; layout only, so a guess does."""
    groups: list[list[str]] = []
    for word in words:
        if groups and _FLAG.match(word) is None:
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups
