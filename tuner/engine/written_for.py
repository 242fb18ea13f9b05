"""Which build a command was written for, as far as its words tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.checked_command import flags_of
from tuner.engine.findings.words import takes
from tuner.engine.flag_history import flag_change
from tuner.engine.known_builds import known_builds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.engine.command_line import UserFlag
    from tuner.engine.help_text import HelpText
    from tuner.engine.known_builds import KnownBuild

_ON_ITS_WAY_OUT = "DEPRECATED in favor of"


def written_for(words: Sequence[str], target: HelpText) -> KnownBuild | None:
    """The known build that a command was most likely written for.

    Args:
        words: All that follows the program.
        target: What the build lists that is to run it.

    Returns:
        The newest known build that has all flags and values which the target lacks; the oldest known one for flags
        that were gone before it. None where the target has them too, or no known build has more of them.
    """
    if not _foreign(words, target):
        return None
    builds = known_builds()
    gone = [
        change.since
        for flag in flags_of(words, target)
        if (change := flag_change(flag.tokens[0])) and change.since
    ]
    if gone:
        before = [
            build for build in builds if build.number < min(gone) and not _deprecated(words, build.help)
        ]
        return before[-1] if before else builds[0]
    fewest = min(builds, key=lambda build: (len(_foreign(words, build.help)), -build.number))
    has_more = len(_foreign(words, fewest.help)) < len(_foreign(words, target))
    return fewest if has_more else None


def _foreign(words: Sequence[str], help_text: HelpText) -> list[UserFlag]:
    """The flags that a build does not list, or not with that value."""
    return [flag for flag in flags_of(words, help_text) if not _is_taken(flag, help_text)]


def _is_taken(flag: UserFlag, help_text: HelpText) -> bool:
    entry = help_text.entry(flag.tokens[0])
    if entry is None:
        return not flag.tokens[0].startswith("-")
    return flag.value is None or takes(entry, flag.name or "", flag.value)


def _deprecated(words: Sequence[str], help_text: HelpText) -> bool:
    entries = (help_text.entry(flag.tokens[0]) for flag in flags_of(words, help_text))
    return any(entry is not None and _ON_ITS_WAY_OUT in entry.text for entry in entries)
