"""From a candidate to the command line of one engine, in the spellings that its `--help` lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.candidate import Candidate, format_value
from tuner.core.options import OPTIONS, Value, is_foreign
from tuner.engine.load_modes import SWITCHES
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.engine.help_text import HelpText
    from tuner.engine.probe import Engine

#: Set by the tuner for each launch, or in the way of its requests; a user's own value would break it. The
#: other sources of a model would win over the file (and download it), and their token is nobody else's business.
MANAGED = frozenset(
    "model model-url hf-repo hf-file hf-token docker-repo host port api-key api-key-file reuse-port api-prefix "
    "ssl-key-file ssl-cert-file".split()
)

#: Acceptance of drafts by position, for measuring with a model whose text is noise.
SYNTHETIC_RATES = "--spec-synth-rates"


@dataclass(frozen=True, slots=True)
class UserFlag:
    """One flag of a command that a user wrote."""

    tokens: tuple[str, ...]
    """As written: the flag, and its value if it has one."""
    name: str | None
    """Canonical name; None for a flag that this engine does not list."""

    @property
    def value(self) -> str | None:
        """The value as written; None for a switch."""
        return self.tokens[1] if len(self.tokens) > 1 else None


def options_to_flags(
    help_text: HelpText, candidate: Candidate, skip: frozenset[str] = frozenset()
) -> list[str]:
    """The candidate's options as flags, in a fixed order, but those that the engine lacks or `skip` names."""
    flags: list[str] = []
    for name in (*OPTIONS, *(name for name, _ in candidate.items if is_foreign(name))):
        value = candidate.get(name)
        if value is not None and name.removeprefix("--") not in skip:
            flags += option_flags(help_text, name, value)
    return flags


def can_write(help_text: HelpText, name: str) -> bool:
    """Whether this engine has a flag for an option."""
    if name == "load-mode":
        return help_text.spelling(name) is not None or help_text.entry("--no-mmap") is not None
    return help_text.spelling(name) is not None


def can_take(help_text: HelpText, name: str, value: str) -> bool:
    """Whether this engine takes a value for an option, as far as its help lists values."""
    if name == "load-mode" and help_text.spelling(name) is None:
        flags = SWITCHES.get(value)
        return flags is not None and all(help_text.entry(flag) is not None for flag in flags)
    return help_text.allows(name, value)


def serving_flags(engine: Engine, *, port: int, api_key: str, alias: str | None) -> list[str]:
    """What a launch needs beside the candidate: a private address, a key, a name, the lines that we read."""
    flags = ["--host", "127.0.0.1", "--port", str(port), "--api-key", api_key]
    if alias is not None:
        flags += ["--alias", alias]
    if engine.hides_memory_lines:
        flags += ["-lv", "4"]
    return flags


def with_rates_for(tokens: Sequence[str], depth: int) -> tuple[str, ...]:
    """A user's words with `--spec-synth-rates` cut to a draft depth, and left out without drafts.

    The engine refuses a list of another length, and any list where nothing drafts (build 11434).
    """
    if SYNTHETIC_RATES not in tokens:
        return tuple(tokens)
    at = tokens.index(SYNTHETIC_RATES)
    rates = tokens[at + 1].split(",")[:depth] if at + 1 < len(tokens) else []
    flag = (SYNTHETIC_RATES, ",".join(rates)) if rates else ()
    return (*tokens[:at], *flag, *tokens[at + 2 :])


def read_user_flags(help_text: HelpText, tokens: Sequence[str]) -> list[UserFlag]:
    """Group the words of a command into flags with their values.

    Raises:
        UsageError: A word that is no flag and belongs to none.
    """
    flags: list[UserFlag] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        entry = help_text.entry(token)
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if entry is not None:
            takes = entry.takes_value
        elif token.startswith("-"):
            # not listed by this engine: it takes what follows, unless that looks like a flag
            takes = following is not None and not _looks_like_flag(following)
        else:
            raise UsageError(f"{token!r} is no flag of llama-server and belongs to none before it")
        if takes and following is None:
            raise UsageError(f"{token} needs a value")
        width = 2 if takes else 1
        flags.append(UserFlag(tuple(tokens[at : at + width]), help_text.canonical(token)))
        at += width
    return flags


def option_flags(help_text: HelpText, name: str, value: Value) -> list[str]:
    """One option as this engine spells it; nothing where it has no such flag, or needs none."""
    spelling = help_text.spelling(name)
    if name == "load-mode" and spelling is None:
        return [flag for flag in SWITCHES.get(str(value), ()) if help_text.entry(flag) is not None]
    entry = help_text.option(name)
    if spelling is None or entry is None:
        return []
    if isinstance(value, bool) and not entry.takes_value:
        if value:
            return [spelling]
        off = entry.negation
        return [off] if off is not None and off != spelling else []
    return [spelling, format_value(name, value)]


def _looks_like_flag(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit() and word != "-"
