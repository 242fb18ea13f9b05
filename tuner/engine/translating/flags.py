"""A single flag in the words of another build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.findings.words import COMMA_LISTS, takes
from tuner.engine.flag_history import BARE_VALUES, VALUE_NAMES, flag_change, older_flags
from tuner.engine.translating.change import Change, ChangeKind, Step
from tuner.engine.translating.said import Said, dropped, negatives, renamed
from tuner.engine.translating.values import value_change

if TYPE_CHECKING:
    from collections.abc import Collection

    from tuner.engine.help_text import HelpEntry, HelpText

_OTHER_NAME = "this build has another name for it"
_NO_FLAG = "this build has no such flag"


def with_flag(said: Said, old: HelpText, new: HelpText, spec_types: Collection[str]) -> Step:
    """What a flag is in the new build: itself, other words, or nothing.

    Args:
        said: The flag, or what a variable says.
        old: Of the build that it is for.
        new: Of the build that it is translated for.
        spec_types: The kinds of drafts that the command asks for.
    """
    word = said.tokens[0]
    if said.name is None and not word.startswith("-"):
        return dropped(said, ChangeKind.LEFT_OUT, "it belongs to no flag")
    entry = new.entry(word)
    if entry is not None:
        return _with_value(said, entry, old, new)
    was = old.entry(word)
    other = None if was is None else _other_spelling(was, word, new)
    if other is not None:
        return renamed(said, (other, *said.tokens[1:]), _OTHER_NAME)
    return (
        _gone(said, old, new, spec_types)
        or _not_yet(said, was, new)
        or dropped(said, ChangeKind.LOST, _NO_FLAG)
    )


def _other_spelling(was: HelpEntry, word: str, new: HelpText) -> str | None:
    """Another spelling of the same option, on or off alike, that the new build lists."""
    off = negatives(was)
    same = [one for one in was.spellings if (one in off) == (word.replace("_", "-") in off)]
    return next((one for one in reversed(same) if new.entry(one) is not None), None)


def _gone(said: Said, old: HelpText, new: HelpText, spec_types: Collection[str]) -> Step | None:
    """A flag that is known to be gone."""
    change = flag_change(said.tokens[0])
    if change is None:
        return None
    words = change.written(said.value, spec_types)
    if words and new.entry(words[0]) is not None:
        refused = value_change(new.canonical(words[0]) or "", said.value, old, new)
        if refused is not None and refused.new is None:
            return dropped(said, ChangeKind.LOST, refused.why)
        return renamed(said, words, change.why)
    kind = ChangeKind.LEFT_OUT if change.since is None else ChangeKind.LOST
    return dropped(said, kind, change.why)


def _not_yet(said: Said, was: HelpEntry | None, new: HelpText) -> Step | None:
    """A flag that came later, and took the place of one that the build has."""
    spellings = said.tokens[:1] if was is None else was.spellings
    for change in (change for spelling in spellings for change in older_flags(spelling)):
        if change.value is None and new.entry(change.old[0]) is not None:
            return renamed(said, (change.old[0], *said.tokens[1:]), "this build has the older flag")
    return None


def _with_value(said: Said, entry: HelpEntry, old: HelpText, new: HelpText) -> Step:
    """A flag that the new build lists, with a value that it takes."""
    name = new.canonical(said.tokens[0]) or ""
    if said.value is None:
        return _bare(said, entry, name)
    if not entry.takes_value:
        return renamed(said, said.tokens[:1], "it takes no value here")
    change = value_change(name, said.value, old, new)
    if change is not None and change.new is None:
        return dropped(said, ChangeKind.LOST, change.why)
    if change is not None and change.new is not None:
        return renamed(said, (said.tokens[0], change.new), change.why)
    return Step((said,)) if takes(entry, name, said.value) else _of_listed_values(said, entry, name)


def _bare(said: Said, entry: HelpEntry, name: str) -> Step:
    """A flag without a value: with the one that it had when it needed none."""
    value = BARE_VALUES.get(name)
    if value is None or not entry.takes_value:
        return Step((said,))
    return renamed(said, (said.tokens[0], value), "it needs a value now")


def _of_listed_values(said: Said, entry: HelpEntry, name: str) -> Step:
    """Those parts of a value that the new build lists, by other names too; the others are lost."""
    value, spelling = said.value or "", said.tokens[0]
    parts = [part.strip() for part in value.split(",")] if name in COMMA_LISTS else [value]
    meant = [VALUE_NAMES.get(name, {}).get(part, part) for part in parts]
    listed = [part for part in meant if takes(entry, name, part)]
    lost = [part for part in meant if part not in listed]
    step = renamed(said, (spelling, ",".join(listed)), "as this build lists it")
    if not lost:
        return step
    after = " ".join(step.said[0].tokens) if listed else ""
    why = f"this build does not list {', '.join(lost)}"
    return Step(step.said if listed else (), (Change(ChangeKind.LOST, said.shown, after, why),))
