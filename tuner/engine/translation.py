"""A command for one build of llama-server in another build's words, doing the same.

Renamed flags and variables are mapped, changed defaults pinned to what they were, and what has no words in the new
build is said. What is compared are the two builds' help texts; what they do not tell is data (`help/history.toml`).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.candidate import format_value
from tuner.core.options import OPTIONS
from tuner.engine.checked_command import flags_of
from tuner.engine.command_line import can_write, option_flags
from tuner.engine.flag_history import flag_change
from tuner.engine.load_modes import load_mode
from tuner.engine.translating.change import Change, ChangeKind, Step
from tuner.engine.translating.defaults import with_defaults
from tuner.engine.translating.drafts import draft_kinds, with_drafts
from tuner.engine.translating.flags import with_flag
from tuner.engine.translating.loading import is_loading, with_loading
from tuner.engine.translating.said import read_said, write_said
from tuner.engine.user_command import option_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.options import Value
    from tuner.engine.command_line import UserFlag
    from tuner.engine.help_text import HelpText
    from tuner.engine.translating.said import Said

__all__ = ["Change", "ChangeKind", "TranslatedOptions", "Translation", "translate", "translate_options"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Translation:
    """A command in another build's words."""

    words: tuple[str, ...]
    """All that follows the program."""
    environment: Mapping[str, str]
    """The variables before it."""
    changes: tuple[Change, ...] = ()
    """What is different: of the words that were there first, then what is pinned."""

    @property
    def lost(self) -> tuple[Change, ...]:
        """What the new build has no words for."""
        return tuple(change for change in self.changes if change.kind is ChangeKind.LOST)


@dataclass(frozen=True, slots=True)
class TranslatedOptions:
    """Options of a candidate in another build's words."""

    options: Mapping[str, Value]
    flags: tuple[str, ...] = ()
    """What the new build needs and no option of a candidate stands for."""
    changes: tuple[Change, ...] = ()


def translate(
    words: Sequence[str], old: HelpText, new: HelpText, environment: Mapping[str, str] = _NOTHING
) -> Translation:
    """Put a command into another build's words.

    Args:
        words: All that follows the program.
        old: What the build lists that the command is for.
        new: What the build lists that is to run it.
        environment: The variables before the program; those that set no option stay as they are.
    """
    read, kept = read_said(words, environment, old, new)
    kinds = draft_kinds(read.said, old)
    loaded = with_loading(read.said, old, new)
    drafted = with_drafts(loaded.said, old, new)
    moved = Step.joined([_moved(one, old, new, kinds) for one in drafted.said])
    pinned = with_defaults(moved.said, kept, old, new, draft_kinds(moved.said, new))
    written = write_said(pinned.said, kept, new)
    steps = (read, loaded, drafted, moved, pinned)
    changes = [*(change for step in steps for change in step.changes), *written.changes]
    changes.sort(key=lambda change: change.kind is ChangeKind.PINNED and not change.before)
    return Translation(written.words, written.environment, tuple(changes))


def translate_options(options: Mapping[str, Value], old: HelpText, new: HelpText) -> TranslatedOptions:
    """Put a candidate's options into another build's words, as `best.json` keeps them.

    Args:
        options: By canonical name; variables of the environment by theirs.
        old: What the build lists that they were measured with.
        new: What the build lists that is to run them.
    """
    words = [word for name in OPTIONS if name in options for word in option_flags(old, name, options[name])]
    translation = translate(words, old, new)
    flags = flags_of(translation.words, new)
    switches = [flag.tokens[0] for flag in flags if _is_loading_switch(flag)]
    # what needs no flag in the old build stays as it is; what it has no flag for did nothing
    said: dict[str, Value] = {
        name: value
        for name, value in options.items()
        if name not in OPTIONS or (can_write(old, name) and not option_flags(old, name, value))
    }
    for flag in flags:
        if flag.name in OPTIONS:
            said[flag.name] = _value(flag, options.get(flag.name))
    if switches:
        said["load-mode"] = load_mode(switches) or "auto"
    rest = (flag for flag in flags if flag.name not in OPTIONS and not _is_loading_switch(flag))
    return TranslatedOptions(said, tuple(word for flag in rest for word in flag.tokens), translation.changes)


def _is_loading_switch(flag: UserFlag) -> bool:
    change = flag_change(flag.tokens[0])
    return change is not None and change.is_loading


def _value(flag: UserFlag, before: Value | None) -> Value:
    """What a flag sets its option to; the very value that it was written from, where it was."""
    name = str(flag.name)
    if before is not None and flag.value == format_value(name, before):
        return before
    return option_value(flag)


def _moved(said: Said, old: HelpText, new: HelpText, kinds: Sequence[str]) -> Step:
    """A flag in the new build's words, but for those that have been put into them already."""
    if is_loading(said) or said.name == "spec-type":
        return Step((said,))
    return with_flag(said, old, new, kinds)
