"""A command that is only looked at: every word of it is kept, wrong ones too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.engine.command_line import UserFlag
from tuner.engine.flag_history import flag_change
from tuner.engine.user_command import assignment, shell_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.engine.help_text import HelpEntry, HelpText

#: What stands before a server's own name in scripts: `nohup`, `env`, `cd there &&`, `export A=1`.
_STARTERS = frozenset(
    "cd chrt env exec export ionice nice nohup numactl set setsid stdbuf sudo systemd-run taskset time".split()
)
_PROGRAMS = ("llama-server", "llama-server.exe")

#: What a text editor makes of a minus sign.
DASHES = ("\u2013", "\u2014", "\u2212")

#: Words of the shell itself. What follows the first kind is another command or a pipe.
_ENDS_COMMAND = re.compile(r"[&|;]{1,2}")
_REDIRECTION = re.compile(r"(?:\d|&)?[<>]{1,2}(?:&\d)?(?P<target>.*)")
_FLAG = re.compile(r"--?[A-Za-z][^ ]*")


@dataclass(frozen=True, slots=True)
class CheckedCommand:
    """A command of a user's, taken apart and with nothing left out."""

    environment: Mapping[str, str]
    """Assignments before the program; one of them may be a key."""
    program: str
    """As typed; empty where the command begins with a flag."""
    flags: tuple[UserFlag, ...]
    """In their order. A word that belongs to no flag is one without a name that begins with no dash."""

    def last(self, name: str) -> UserFlag | None:
        """The flag that counts for an option by canonical name: the last one."""
        return next((flag for flag in reversed(self.flags) if flag.name == name), None)

    def value(self, name: str) -> str | None:
        """The value of an option by canonical name, the last one if repeated; None where it has none."""
        flag = self.last(name)
        return None if flag is None else flag.value

    def has(self, name: str) -> bool:
        """Whether the command has a flag of that canonical name."""
        return self.last(name) is not None


def read_command(help_text: HelpText, command: str) -> CheckedCommand:
    """Take a command apart as a shell and the engine would, and keep what is wrong with it.

    Raises:
        UsageError: It cannot be split into words, or holds no command.
    """
    shell = shell_command(command, "tuner check")
    environment, program, words = dict(shell.environment), shell.program, shell.words
    start = _own_start(words) if program in _STARTERS else None
    if start is not None:
        assigned = (assignment(word.rstrip(";")) for word in words[:start])
        environment |= dict(pair for pair in assigned if pair is not None)
        program, words = words[start], words[start + 1 :]
    return CheckedCommand(environment, program, flags_of(words, help_text))


def is_stray(flag: UserFlag) -> bool:
    """Whether it is a word that belongs to no flag."""
    return flag.name is None and not flag.tokens[0].startswith("-")


def _own_start(words: Sequence[str]) -> int | None:
    """Where the server's own name stands among the words after `nohup` and its like."""
    return next((at for at, word in enumerate(words) if word.rpartition("/")[2] in _PROGRAMS), None)


def flags_of(words: Sequence[str], *help_texts: HelpText) -> tuple[UserFlag, ...]:
    """Words of a command as flags with their values; what follows in a shell is left out.

    Args:
        words: All that follows the program.
        help_texts: Where a flag is looked up, in this order.
    """
    flags: list[UserFlag] = []
    at = 0
    while at < len(words):
        word = words[at]
        if _ENDS_COMMAND.fullmatch(word):
            break
        if (redirection := _REDIRECTION.fullmatch(word)) is not None:
            at += 1 if redirection["target"] or "&" in word[1:] else 2
            continue
        width = 1 + _count_values(help_texts, word, words[at + 1 :])
        names = filter(None, (help_text.canonical(word) for help_text in help_texts))
        flags.append(UserFlag(tuple(words[at : at + width]), next(names, None)))
        at += width
    return tuple(flags)


def _count_values(help_texts: Sequence[HelpText], word: str, following: Sequence[str]) -> int:
    """How many of the words that follow are the flag's own: fewer than it takes if another flag comes first."""
    wanted = _wanted(help_texts, word)
    is_listed = _entry(help_texts, word) is not None
    for count, value in enumerate(following[:wanted]):
        if _is_flag(help_texts, value, is_value_sure=is_listed) or _ENDS_COMMAND.fullmatch(value):
            return count
    return min(wanted, len(following))


def _wanted(help_texts: Sequence[HelpText], word: str) -> int:
    entry = _entry(help_texts, word)
    if entry is not None:
        return entry.n_values
    if not word.startswith(("-", *DASHES)) or "=" in word:
        return 0
    change = flag_change(word)
    # not listed by this engine and not known: it takes what follows, unless that looks like a flag
    return 1 if change is None else change.n_values


def _is_flag(help_texts: Sequence[HelpText], word: str, *, is_value_sure: bool) -> bool:
    """Whether a word is the next flag; one dash may begin a value, where a value is sure to follow."""
    if _entry(help_texts, word) is not None or flag_change(word) is not None or word.startswith(DASHES):
        return True
    return _FLAG.fullmatch(word) is not None and (word.startswith("--") or not is_value_sure)


def _entry(help_texts: Sequence[HelpText], word: str) -> HelpEntry | None:
    entries = filter(None, (help_text.entry(word) for help_text in help_texts))
    return next(entries, None)
