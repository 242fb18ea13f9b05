"""What a command says of its server's options, by flags and by variables of the environment alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.engine.checked_command import flags_of
from tuner.engine.findings.asked import NO, SECRETS, YES
from tuner.engine.flag_history import variable_change
from tuner.engine.translating.change import Change, ChangeKind, Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.engine.help_text import HelpEntry, HelpText

_PREFIX, _NEGATED = "LLAMA_ARG_", "LLAMA_ARG_NO_"
_LOAD_MODE = "LLAMA_ARG_LOAD_MODE"
#: The switches that variables of loading stand for, on and off.
_LOADING = {
    "LLAMA_ARG_MMAP": ("--mmap", "--no-mmap"),
    "LLAMA_ARG_MLOCK": ("--mlock", ""),
    "LLAMA_ARG_DIO": ("--direct-io", "--no-direct-io"),
}
_OTHER_NAME = "the variable has another name"


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that a command says: a flag with its values, or a variable that stands for one."""

    tokens: tuple[str, ...]
    """The flag and its values; for a variable, those that it stands for."""
    name: str | None
    """Canonical name of the option; None for words that no build lists."""
    variable: str | None = None
    """The variable that says it; None for a flag."""
    assigned: str = ""
    """What the variable is set to."""

    @property
    def value(self) -> str | None:
        """The value; None for a switch, or where it is missing."""
        return self.tokens[1] if len(self.tokens) > 1 else None

    @property
    def shown(self) -> str:
        """As it stands in the command; a key without its value."""
        if self.name in SECRETS:
            return self.variable or self.tokens[0]
        return " ".join(self.tokens) if self.variable is None else f"{self.variable}={self.assigned}"


@dataclass(frozen=True, slots=True)
class Written:
    """A command's words and variables."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    changes: tuple[Change, ...] = ()


def read_said(
    words: Sequence[str], environment: Mapping[str, str], old: HelpText, new: HelpText
) -> tuple[Step, dict[str, str]]:
    """What a command says, variables first as the engine reads them, and the variables that are none of its.

    Args:
        words: All that follows the program.
        environment: What is assigned before it.
        old: Of the build that the command is for.
        new: Of the build that it is translated for: flags that only this one lists are read by it.
    """
    kept: dict[str, str] = {}
    steps: list[Step] = []
    for name, value in environment.items():
        step = _of_variable(name, value, old, new)
        if step is None:
            kept[name] = value
        else:
            steps.append(step)
    steps.append(Step(tuple(Said(flag.tokens, flag.name) for flag in flags_of(words, old, new))))
    return Step.joined(steps), kept


def write_said(said: Sequence[Said], kept: Mapping[str, str], new: HelpText) -> Written:
    """The words and variables of a translated command; what a variable said stays one where the build has it."""
    words: list[str] = []
    environment = dict(kept)
    changes: list[Change] = []
    for one in said:
        entry = new.entry(one.tokens[0])
        if one.variable is None:
            words += one.tokens
        elif entry is not None and entry.variable is not None:
            name = entry.variable
            if one.variable.startswith(_NEGATED) and not entry.variable.startswith(_NEGATED):
                name = name.replace(_PREFIX, _NEGATED, 1)
            value = one.tokens[1] if entry.takes_value else one.assigned
            environment[name] = value
            if name != one.variable:
                after = replace(one, variable=name, assigned=value).shown
                changes.append(Change(ChangeKind.RENAMED, one.shown, after, _OTHER_NAME))
        else:
            words += one.tokens
            after = replace(one, variable=None).shown
            changes.append(Change(ChangeKind.RENAMED, one.shown, after, "no variable sets it here"))
    return Written(tuple(words), environment, tuple(changes))


def negatives(entry: HelpEntry) -> tuple[str, ...]:
    """The spellings that switch an option off: `-nkvo`, `--no-kv-offload`; none for `--no-host`, which is a name."""
    long = [spelling for spelling in entry.spellings if spelling.startswith("--")]
    if entry.takes_value or all(spelling.startswith("--no-") for spelling in long):
        return ()
    positive = next(spelling for spelling in long if not spelling.startswith("--no-"))
    behind = entry.spellings[entry.spellings.index(positive) + 1 :]
    return tuple(spelling for spelling in behind if spelling.startswith(("-n", "--no-")))


def _of_variable(name: str, value: str, old: HelpText, new: HelpText) -> Step | None:
    """What a variable says; None for one that sets no option, or that only the new build has."""
    entry, is_negated = old.variables.get(name), False
    if entry is None and name.startswith(_NEGATED):
        entry, is_negated = old.variables.get(name.replace(_NEGATED, _PREFIX, 1)), True
        if entry is not None and not negatives(entry):
            entry = None
    if entry is not None:
        tokens = _tokens(entry, "0" if is_negated else value)
        if tokens:
            return Step((Said(tokens, old.canonical(tokens[0]), name, value),))
        return _off_anyway(name, value) if name not in new.variables else None
    if name in new.variables:
        return None
    return _of_gone_variable(name, value, new)


def _tokens(entry: HelpEntry, value: str) -> tuple[str, ...]:
    """The flag that a variable stands for; nothing where it switches off what is off anyway."""
    off = negatives(entry)
    spelling = next(one for one in reversed(entry.spellings) if one not in off)
    if entry.takes_value:
        return (spelling, value)
    if value in YES:
        return (spelling,)
    return (off[-1],) if off and value in NO else ()


def _of_gone_variable(name: str, value: str, new: HelpText) -> Step | None:
    """What a variable said that the old build's help does not list, by what is known of its name."""
    change = variable_change(name.replace(_NEGATED, _PREFIX, 1))
    if change is None:
        return None
    if change.new == _LOAD_MODE:
        on, off = _LOADING[change.old]
        spelling = off if name.startswith(_NEGATED) or value in NO else on
        return Step((Said((spelling,), None, name, value),)) if spelling else _off_anyway(name, value)
    before = f"{name}={value}"
    entry = None if change.new is None else new.variables.get(change.new)
    if change.new is None or entry is None:
        text = f"build {change.since} and newer do not read it"
        return Step((), (Change(ChangeKind.LOST, before, "", text),))
    tokens = _tokens(entry, "0" if name.startswith(_NEGATED) else value)
    if not tokens:
        return _off_anyway(name, value)
    said = Said(tokens, new.canonical(tokens[0]), name, value)
    return Step((said,))


def _off_anyway(name: str, value: str) -> Step:
    return Step((), (Change(ChangeKind.LEFT_OUT, f"{name}={value}", "", "it is off anyway"),))


def renamed(said: Said, tokens: tuple[str, ...], why: str) -> Step:
    """The same said in other words."""
    new = replace(said, tokens=tokens)
    after = replace(new, variable=None).shown
    return Step((new,), (Change(ChangeKind.RENAMED, said.shown, after, why),))


def dropped(said: Said, kind: ChangeKind, why: str) -> Step:
    """It is no longer said."""
    return Step((), (Change(kind, said.shown, "", why),))
