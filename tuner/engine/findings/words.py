"""Words of a command that this engine does not take as they stand."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from tuner.core.options import OPTIONS, ValueType
from tuner.engine.checked_command import DASHES, is_stray
from tuner.engine.findings.asked import NO, SECRETS, YES, listed, problem, warning
from tuner.engine.flag_history import VALUE_NAMES, FlagChange, flag_change, older_flags
from tuner.engine.load_modes import load_mode
from tuner.engine.user_command import PRINTS_AND_ENDS, option_value

if TYPE_CHECKING:
    from tuner.core.checkup.check import Check
    from tuner.engine.command_line import UserFlag
    from tuner.engine.findings.asked import Asked
    from tuner.engine.help_text import HelpEntry, HelpText

_REMOVED = re.compile(r"has been removed\. (?P<advice>.*?)(?: \(env: | -----|$)")
_QUOTED = re.compile(r"'([a-z_-]+)'")
_DEFAULT = re.compile(r"\(default: ([a-z_-]+)[);]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_LEADING = re.compile(r"[+-]?\d+")
_UNSET = frozenset({"-1"})
#: Hints of values that are numbers; `<0|1>` takes any whole one.
_NUMBER_HINTS = frozenset({"N"})
#: Its list says what levels mean; higher ones are taken too.
_OPEN_LISTS = frozenset({"log-verbosity", "verbosity"})
_NEAR = 0.75
#: Each part of their values is one of those that are listed.
COMMA_LISTS = frozenset({"spec-type", "tools"})
#: Repeated, these add to each other.
_ADDS_UP = frozenset(
    "spec-type lora lora-scaled control-vector control-vector-scaled override-kv override-tensor logit-bias "
    "spec-draft-override-tensor reverse-prompt dry-sequence-breaker rpc api-key".split()
)


def word_findings(asked: Asked) -> list[Check]:
    """Unknown and removed flags, stray words, missing and unknown values, repetitions; in that order."""
    flags = asked.command.flags
    found = [*_removed(asked)]
    for before, flag in zip((None, *flags), flags, strict=False):
        if is_stray(flag):
            found.append(_stray(flag, before, asked.help_text))
        elif flag.name is None and flag_change(flag.tokens[0]) is None:
            found.append(_unknown(flag, asked.help_text))
        elif flag.name is not None:
            found += _value_findings(asked, flag, flag.name)
    return found + _repeated(asked) + _ends(asked)


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that was most likely meant; None where none is close."""
    longer = sorted((one for one in known if one.startswith(word)), key=len)
    if longer and len(word) > len("--x"):
        return longer[0]
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=_NEAR)), None)


def takes(entry: HelpEntry, name: str, value: str) -> bool:
    """Whether an option takes a value, as far as its help lists values."""
    allowed = entry.allowed
    if not allowed or name in _OPEN_LISTS or allowed <= {"0", "1"}:
        return True
    if entry.hint.startswith("[on|off") and value in YES | NO | (
        _UNSET if "auto" in allowed else frozenset()
    ):
        return True
    parts = value.split(",") if name in COMMA_LISTS else [value]
    return all(part in allowed | frozenset(_DEFAULT.findall(entry.text)) for part in parts)


def value_remedy(entry: HelpEntry, name: str, shown: str, value: str) -> str:
    """What to write instead of a value that is not listed."""
    # what the engine lists and CUDA no longer runs is no advice
    allowed = sorted(entry.allowed - ({"row"} if name == "split-mode" else set()))
    renamed = VALUE_NAMES.get(name, {})
    parts = value.split(",")
    better = [
        part if part in allowed else renamed.get(part) or nearest(part, allowed)
        for part in map(str.strip, parts)
    ]
    known = [part for part in better if part in allowed]
    if len(known) == len(parts):
        return f"write {shown} {','.join(known)}"
    return f"write {shown} with one of {', '.join(allowed)}"


def _removed(asked: Asked) -> list[Check]:
    """Flags that are gone; those that became one flag together are one finding."""
    gone = [
        (flag, change)
        for flag in asked.command.flags
        if flag.name is None and (change := flag_change(flag.tokens[0])) is not None
    ]
    loading = [flag.tokens[0] for flag, change in gone if change.is_loading]
    checks = []
    if loading:
        change = next(change for _, change in gone if change.is_loading)
        mode = load_mode(loading)
        remedy = "leave it out" if mode is None else f"write --load-mode {mode} instead"
        if asked.help_text.option("load-mode") is None:
            remedy = "leave it out: this engine lists neither it nor --load-mode"
        checks.append(problem(" ".join(loading), f"{_gone(change)}: {change.why}", remedy))
    for flag, change in gone:
        if change.is_loading:
            continue
        words = change.written(flag.value, asked.spec_types)
        remedy = f"write {' '.join(words)} instead" if words else "leave it out"
        checks.append(problem(" ".join(flag.tokens), f"{_gone(change)}: {change.why}", remedy))
    return checks


def _gone(change: FlagChange) -> str:
    if change.since is None:
        return "no flag of llama-server"
    return f"removed (build {change.since} does not have it), and the server does not start with it"


def _stray(flag: UserFlag, before: UserFlag | None, help_text: HelpText) -> Check:
    word = flag.tokens[0]
    if word.startswith(DASHES):
        name = word.lstrip("".join((*DASHES, "-")))
        written = f"--{name}" if help_text.entry(f"--{name}") is not None else f"-{name}"
        text = "begins with a dash that is not the minus sign"
        return problem(" ".join(flag.tokens), text, f"write {' '.join((written, *flag.tokens[1:]))}")
    entry = None if before is None or is_stray(before) else help_text.entry(before.tokens[0])
    if before is not None and entry is not None and not entry.takes_value:
        text = f"belongs to no flag: {before.tokens[0]} takes no value"
        return problem(word, text, f"write {before.tokens[0]} alone")
    return problem(
        word, "belongs to no flag, and the server does not start with it", "leave it out, or quote it"
    )


def _unknown(flag: UserFlag, help_text: HelpText) -> Check:
    spelling, sign, value = flag.tokens[0].partition("=")
    text = "this engine has no such flag, and the server does not start with it"
    if sign and help_text.entry(spelling) is not None:
        shown = "VALUE" if help_text.canonical(spelling) in SECRETS else value
        return problem(
            f"{spelling}=", "a value follows after a blank, not after =", f"write {spelling} {shown}"
        )
    for entry in help_text.entries:
        if spelling in entry.spellings and (removed := _REMOVED.search(entry.text)) is not None:
            return problem(spelling, "removed, and the server does not start with it", removed["advice"])
    for change in older_flags(spelling):
        if change.value in {None, flag.value} and help_text.entry(change.old[0]) is not None:
            older = " ".join((change.old[0], *([] if change.value or not flag.value else [flag.value])))
            return problem(spelling, f"{text}: it is of a newer build", f"write {older} instead")
    meant = _meant(spelling, help_text)
    remedy = "leave it out, or use a llama.cpp that has it" if meant is None else f"write {meant}"
    return problem(spelling, text, remedy)


def _meant(spelling: str, help_text: HelpText) -> str | None:
    for other in (f"-{spelling}", spelling[1:]):  # one dash too few, one too many
        if help_text.entry(other) is not None:
            return other
    long = [word for entry in help_text.entries for word in entry.spellings if word.startswith("--")]
    known = [word for word in long if help_text.entry(word) is not None]
    return nearest(spelling, known) if spelling.startswith("--") else None


def _value_findings(asked: Asked, flag: UserFlag, name: str) -> list[Check]:
    entry = asked.help_text.entry(flag.tokens[0])
    if entry is None or not entry.takes_value:
        return []
    spelling, value = flag.tokens[0], flag.value
    if value is None:
        example = "on" if "on" in entry.allowed else entry.hint
        return [problem(spelling, "its value is missing", f"write {spelling} {example}")]
    if not takes(entry, name, value):
        return [
            problem(
                f"{spelling} {value}",
                "its help does not list this value, and the server does not start with it",
                value_remedy(entry, name, spelling, value),
            )
        ]
    return number_findings(entry, name, spelling, value)


def number_findings(entry: HelpEntry, name: str, spelling: str, value: str) -> list[Check]:
    """A number that the engine reads only the beginning of, or not at all."""
    if entry.hint not in _NUMBER_HINTS or value in _QUOTED.findall(entry.text):
        return []
    is_whole = name in OPTIONS and OPTIONS[name].value_type is ValueType.INTEGER
    if (_WHOLE if is_whole else _NUMBER).fullmatch(value.strip()):
        return []
    shown = f"{spelling} {value}"
    read = (_LEADING if is_whole else _NUMBER).match(value.strip())
    if read is None:
        return [problem(shown, "is no number, and the server does not start with it", f"write {spelling} N")]
    whole = re.fullmatch(r"(\d{1,9})[kK]", value.strip())
    meant = f"{int(whole[1]) * 1024}" if whole is not None else re.sub(r"(?<=\d)[,_. ](?=\d{3}\b)", "", value)
    remedy = f"write {spelling} {meant}" if meant.isdigit() else f"write {spelling} with a number alone"
    return [problem(shown, f"the server reads it as {read[0]} and drops the rest", remedy)]


def _repeated(asked: Asked) -> list[Check]:
    by_name: dict[str, list[UserFlag]] = {}
    for flag in asked.command.flags:
        if flag.name is not None and flag.name not in _ADDS_UP:
            by_name.setdefault(flag.name, []).append(flag)
    checks = []
    for name, flags in by_name.items():
        if len(flags) < 2 or len({_meaning(flag) for flag in flags}) < 2:
            continue
        shown = [flag.tokens[0] if name in SECRETS else " ".join(flag.tokens) for flag in flags]
        text = f"set {len(flags)} times ({', '.join(shown)}); the last one counts"
        checks.append(warning(f"--{name}", text, f"keep {shown[-1]} alone, or the one that you mean"))
    return checks


def _meaning(flag: UserFlag) -> object:
    """What a flag sets, so that `-kvu -kvu` is no contradiction and `-kvu -no-kvu` is one."""
    option = OPTIONS.get(flag.name or "")
    if option is not None and option.value_type is ValueType.SWITCH:
        return option_value(flag)
    return flag.value if flag.value is not None else flag.tokens[0].startswith(("--no-", "-no-"))


def _ends(asked: Asked) -> list[Check]:
    printing = [flag.tokens[0] for flag in asked.command.flags if flag.name in PRINTS_AND_ENDS]
    if not printing:
        return []
    return [problem(listed(printing), "makes the server print something and end", "leave it out")]
