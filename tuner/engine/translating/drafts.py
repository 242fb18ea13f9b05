"""Which kinds of drafts a command gets: what a draft model alone does differs from build to build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.flag_history import VALUE_NAMES
from tuner.engine.translating.change import Change, ChangeKind, Step
from tuner.engine.translating.said import Said

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tuner.engine.help_text import HelpText

_NAME, _SIMPLE = "spec-type", "draft-simple"
_MODELS = ("spec-draft-model", "spec-draft-hf")
#: With one of these, build 9246 does not draft by the draft model itself.
_OWN_MODEL = frozenset({_SIMPLE, "draft-eagle3", "draft-mtp"})
#: Build 11434 lists it, and 10435 does not.
_INFERS = "--spec-draft-sampling"


def draft_kinds(said: Sequence[Said], help_text: HelpText) -> tuple[str, ...]:
    """The kinds of drafts that a build gets from a command, those that a draft model alone turns on too."""
    written = _written(said, help_text)
    implied = _SIMPLE if _is_implied(help_text, written, has_model=_has_model(said)) else None
    return written if implied is None or implied in written else (*written, implied)


def with_drafts(said: tuple[Said, ...], old: HelpText, new: HelpText) -> Step:
    """The command with the same kinds of drafts in the new build, as far as it has them."""
    if old.option(_NAME) is None or new.option(_NAME) is None:
        return Step(said)
    wanted = draft_kinds(said, old)
    differences = tuple(_differences(said, old, new, kinds=wanted))
    is_listed = all(part == "none" or new.allows(_NAME, part) for part in _parts(said))
    if is_listed and set(draft_kinds(said, new)) == set(wanted):
        return Step(said, differences)
    kept = [kind for kind in wanted if new.allows(_NAME, kind)]
    if not _knows(new, _SIMPLE):  # one kind at a time there, beside what a draft model does alone
        kept = kept[:1]
    changes: list[Change] = []
    is_implied = _is_implied(new, kept, has_model=_has_model(said))
    if is_implied and _SIMPLE not in wanted:
        said, left_out = _without_model(said)
        changes.append(left_out)
    got = {*kept, _SIMPLE} if is_implied else set(kept)
    said, change = _with_types(said, kept, lost=[kind for kind in wanted if kind not in got], old=old)
    if change.before != change.after:
        changes.append(change)
    return Step(said, (*changes, *differences))


def _has_model(said: Sequence[Said]) -> bool:
    return any(one.name in _MODELS for one in said)


def _knows(help_text: HelpText, kind: str) -> bool:
    entry = help_text.option(_NAME)
    return entry is not None and kind in entry.allowed


def _written(said: Sequence[Said], help_text: HelpText) -> tuple[str, ...]:
    """The kinds that are written, those meant by a wrong name too; repeated, they add up where a list is taken."""
    parts = _parts(said) if _knows(help_text, _SIMPLE) else _parts(said)[-1:]
    kinds = [VALUE_NAMES[_NAME].get(part, part) for part in map(str.strip, parts)]
    return tuple(kind for kind in dict.fromkeys(kinds) if kind != "none")


def _parts(said: Sequence[Said]) -> list[str]:
    return [part for one in said if one.name == _NAME and one.value for part in one.value.split(",")]


def _is_implied(help_text: HelpText, kinds: Collection[str], *, has_model: bool) -> bool:
    """Whether a draft model alone drafts: so up to 9246, and from 10001 on it is loaded and not used."""
    if not has_model:
        return False
    if not _knows(help_text, _SIMPLE):
        return True
    return not _knows(help_text, "draft-dflash") and not _OWN_MODEL & set(kinds)


def _with_types(
    said: tuple[Said, ...], kinds: Sequence[str], *, lost: Sequence[str], old: HelpText
) -> tuple[tuple[Said, ...], Change]:
    """The command with just these kinds, where the last flag that names some stands, or at its end."""
    ours = [one for one in said if one.name == _NAME]
    before = " ".join(one.shown for one in ours)
    flag = Said(("--spec-type", ",".join(kinds)), _NAME) if kinds else None
    placed: list[Said] = []
    for one in said:
        if one.name != _NAME:
            placed.append(one)
        elif one is ours[-1] and flag is not None:
            placed.append(flag)
    if flag is not None and not ours:
        placed.append(flag)
    after = "" if flag is None else flag.shown
    if lost:
        change = Change(ChangeKind.LOST, before, after, f"this build cannot draft so: {', '.join(lost)}")
    elif flag is None:
        change = Change(ChangeKind.LEFT_OUT, before, after, "a draft model alone drafts in this build")
    elif set(kinds) - set(_written(said, old)):
        why = "a draft model alone did that; here it is loaded and not used"
        change = Change(ChangeKind.PINNED, before, after, why)
    else:
        change = Change(ChangeKind.RENAMED, before, after, "as this build lists it")
    return tuple(placed), change


def _without_model(said: tuple[Said, ...]) -> tuple[tuple[Said, ...], Change]:
    before = " ".join(one.shown for one in said if one.name in _MODELS)
    why = "it was loaded and not used; in this build it would draft"
    kept = tuple(one for one in said if one.name not in _MODELS)
    return kept, Change(ChangeKind.LEFT_OUT, before, "", why)


def _differences(
    said: Sequence[Said], old: HelpText, new: HelpText, *, kinds: Collection[str]
) -> Iterator[Change]:
    """What 11434 does with a draft model that older builds did not; no flag turns it back."""
    if not _has_model(said) or new.entry(_INFERS) is None or old.entry(_INFERS) is not None:
        return
    names = {one.name for one in said}
    model = " ".join(one.shown for one in said if one.name in _MODELS)
    if not kinds:
        why = "it was loaded and not used; here it drafts if its header says MTP, DFlash or DSpark"
        yield Change(ChangeKind.DIFFERS, model, "", why)
    if "device" in names and "spec-draft-device" not in names:
        why = "it lay on every device; here it lies on those of --device (--spec-draft-device names others)"
        yield Change(ChangeKind.DIFFERS, model, "", why)
