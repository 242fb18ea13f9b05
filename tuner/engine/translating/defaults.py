"""Defaults that are others in the new build, set to what they were."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.engine.findings.asked import NO, YES
from tuner.engine.flag_history import DEFAULT_CHANGES, READ_WITH
from tuner.engine.translating.change import Change, ChangeKind, Step
from tuner.engine.translating.said import Said, negatives
from tuner.engine.translating.values import value_change

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tuner.engine.help_text import HelpEntry, HelpText

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
#: Flags of drafts are read where some kind of drafts is on.
_OF_DRAFTS, _OF_NGRAMS = "spec-draft-", "spec-ngram-"
#: Which model drafts, and where it lies, has no default that a flag could state.
_APART = frozenset({"spec-draft-device", "spec-draft-p-split"})


def with_defaults(
    said: tuple[Said, ...],
    kept: Mapping[str, str],
    old: HelpText,
    new: HelpText,
    kinds: Collection[str],
) -> Step:
    """The command with flags for what it leaves to a default that has changed, as the two help texts state them.

    Args:
        said: The command in the new build's words.
        kept: Variables that are none of the old build's; the new one may read them.
        old: Of the build that it is for.
        new: Of the build that it is translated for.
        kinds: The kinds of drafts that it gets.
    """
    names = {new.canonical(one.tokens[0]) for one in said} | {one.name for one in said}
    pinned: list[Said] = []
    changes: list[Change] = []
    for name, (was, now) in _changed(old, new).items():
        entry = new.option(name)
        if entry is None or name in names or entry.variable in kept or not _is_read(name, names, kinds):
            continue
        words = () if value_change(name, was, old, new) is not None else _words(entry, was)
        text = f"the default was {_shown(was)} and is {_shown(now)}"
        if words:
            pinned.append(Said(words, name))
            changes.append(Change(ChangeKind.PINNED, "", " ".join(words), text))
        else:
            changes.append(
                Change(ChangeKind.DIFFERS, f"--{name}", "", f"{text}; no flag sets it to what it was")
            )
    return Step((*said, *pinned), tuple(changes))


def _changed(old: HelpText, new: HelpText) -> dict[str, tuple[str, str]]:
    """What each option did where it was not given, and does now, by the new build's name of it."""
    found: dict[str, tuple[str, str]] = {}
    for was in old.entries:
        entry = _same(was, old, new)
        name = None if entry is None else new.canonical(entry.spellings[-1])
        if entry is None or name is None or was.default is None or entry.default is None:
            continue
        if not _is_equal(was.default, entry.default):
            found[name] = (was.default, entry.default)
    for change in DEFAULT_CHANGES:
        if old.entry(change.until) is None and new.entry(change.until) is not None:
            found[change.option] = (change.was, change.now)
    return found


def _shown(default: str) -> str:
    return f"'{default}'" if " " in default else default


def _same(was: HelpEntry, old: HelpText, new: HelpText) -> HelpEntry | None:
    """The new build's entry of the same option."""
    if old.entry(was.spellings[-1]) is None:
        return None  # listed as removed
    return next((entry for one in reversed(was.spellings) if (entry := new.entry(one)) is not None), None)


def _is_equal(was: str, now: str) -> bool:
    if was == now:
        return True
    if _NUMBER.fullmatch(was) and _NUMBER.fullmatch(now):
        return float(was) == float(now)
    return any(was in words and now in words for words in (YES, NO))


def _is_read(name: str, names: Collection[str | None], kinds: Collection[str]) -> bool:
    """Whether the server would look at an option at all."""
    if name in _APART:
        return False
    if name.startswith(_OF_DRAFTS):
        return any(kind.startswith("draft-") for kind in kinds)
    if name.startswith(_OF_NGRAMS):
        return any(name.startswith(f"spec-{kind}-") for kind in kinds)
    return name not in READ_WITH or READ_WITH[name] in names


def _words(entry: HelpEntry, value: str) -> tuple[str, ...]:
    """The words that set an option to a default as a help text states it; none where it is no value."""
    off = negatives(entry)
    spelling = next(one for one in entry.spellings if one.startswith("--") and one not in off)
    if entry.takes_value:
        is_value = _NUMBER.fullmatch(value) is not None or value in entry.allowed
        return (spelling, value) if is_value else ()
    if value in YES:
        return (spelling,)
    return (off[-1],) if off and value in NO else ()
