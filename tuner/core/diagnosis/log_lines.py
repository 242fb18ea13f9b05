"""Finding lines in a server's log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# `0.00.383.169 E ` of builds from 9246 on, after the colours that `--log-colors on` puts before it
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(r"\d+\.\d{2}\.\d{3}\.\d{3} [A-Z] ")

#: What a server says when it is ready (server.cpp:526), all builds.
_LISTENING = re.compile(r"listening on (?:https?|unix)://")
#: What it says when it ends in order, for whatever reason.
CLEANING_UP = "cleaning up before exit"


def is_up(log: str) -> bool:
    """Whether the server got as far as serving."""
    return _LISTENING.search(log) is not None


def line_with(log: str, texts: Iterable[str], *, last: bool = False) -> str | None:
    """The line of the first of the texts that occurs.

    Args:
        log: Where to look.
        texts: The most telling first.
        last: Take the last line with a text, not the first.
    """
    for text in texts:
        at = log.rfind(text) if last else log.find(text)
        if at >= 0:
            return line_at(log, at)
    return None


def line_matching(log: str, pattern: re.Pattern[str]) -> str | None:
    """The line where a pattern occurs first."""
    match = pattern.search(log)
    return None if match is None else line_at(log, match.start())


def line_at(log: str, at: int) -> str:
    """The line around a position, without time, level and colours."""
    start = log.rfind("\n", 0, at) + 1
    end = log.find("\n", at)
    return without_prefix(log[start : end if end >= 0 else len(log)])


def without_prefix(line: str) -> str:
    """A line without time, level and colours."""
    bare = _COLOUR.sub("", line).strip()
    return _PREFIX.sub("", bare, count=1).strip() if _PREFIX.match(bare) else bare


def last_line(log: str) -> str:
    """The last line with anything on it; empty where there is none."""
    return without_prefix(log.rstrip().rpartition("\n")[2])


def last_match(pattern: re.Pattern[str], log: str) -> re.Match[str] | None:
    """The last place where a pattern occurs."""
    last = None
    for match in pattern.finditer(log):
        last = match
    return last
