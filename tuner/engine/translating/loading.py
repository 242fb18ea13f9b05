"""How weights are read: four switches in builds up to 10001, `--load-mode` in newer ones, both in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.flag_history import flag_change
from tuner.engine.load_modes import SWITCHES, last_mode, load_mode
from tuner.engine.translating.change import Change, ChangeKind, Step
from tuner.engine.translating.said import Said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.engine.help_text import HelpText

_NAME, _FLAG = "load-mode", "--load-mode"
_WHY = "one flag took the place of four switches"
_DEFAULT = "it was the default"


def with_loading(said: tuple[Said, ...], old: HelpText, new: HelpText) -> Step:
    """The command with the way that weights are read in the new build's words."""
    has_flag, had_flag = (help_text.spelling(_NAME) is not None for help_text in (new, old))
    ours = [one for one in said if is_loading(one)]
    if has_flag:
        if had_flag and all(new.entry(one.tokens[0]) is not None for one in ours):
            return Step(said)
        mode = _mode(ours, old)
        if mode is not None:
            return _replaced(said, ours, [(_FLAG, mode)], _WHY)
        # nothing but the default, which is pinned with the others
        return _replaced(said, ours, [], _DEFAULT) if ours else Step(said)
    if not any(one.name == _NAME for one in ours) or not _has_switches(new):
        return Step(said)
    switches = SWITCHES.get(_mode(ours, old) or "", ())
    return _replaced(said, ours, [(switch,) for switch in switches], "this build has switches in its place")


def is_loading(said: Said) -> bool:
    """Whether it says how weights are read."""
    change = flag_change(said.tokens[0])
    return said.name == _NAME or (change is not None and change.is_loading)


def _has_switches(help_text: HelpText) -> bool:
    return help_text.entry("--no-mmap") is not None


def _mode(ours: Sequence[Said], old: HelpText) -> str | None:
    """The mode that all of it comes to in the old build; None where it changes nothing there."""
    if old.spelling(_NAME) is None:
        return load_mode([one.tokens[0] for one in ours])
    mode = None
    for one in ours:
        mode = one.value if one.name == _NAME else last_mode(one.tokens[0])
    return mode


def _replaced(
    said: tuple[Said, ...], ours: Sequence[Said], flags: Sequence[tuple[str, ...]], why: str
) -> Step:
    """Other flags in the place of the first that said it."""
    before = " ".join(one.shown for one in ours)
    after = " ".join(word for flag in flags for word in flag)
    if after == before:
        return Step(said)
    placed: list[Said] = []
    for one in said:
        if one is ours[0]:
            placed += [Said(flag, _NAME) for flag in flags]
        elif one not in ours:
            placed.append(one)
    kind = ChangeKind.RENAMED if flags else ChangeKind.LEFT_OUT
    return Step(tuple(placed), (Change(kind, before, after, why),))
