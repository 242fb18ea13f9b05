"""Flags with which a server writes down what it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.cli.build.options import TuneOptions
    from tuner.core.workload import Workload
    from tuner.engine.command_line import UserFlag
    from tuner.engine.user_command import UserCommand

#: Build 11434 prints requests and answers at 5 (debug), and neither at 4.
MOST_VERBOSE = 4
_ALWAYS = frozenset({"verbose", "log-verbose", "log-prompts-dir"})
_LEVELS = frozenset({"verbosity", "log-verbosity"})
_VARIABLES = frozenset({"LLAMA_ARG_LOG_VERBOSITY", "LLAMA_LOG_VERBOSITY"})


def refuse_telling(
    options: TuneOptions, workload: Workload, extra: tuple[UserFlag, ...], current: UserCommand | None
) -> None:
    """Refuse what would put the user's own prompts into the servers' logs, unless they may be kept.

    Raises:
        UsageError: There is such a flag after `--` or in `--current`, or such a variable in front of it.
    """
    if options.keep_text or not workload.prompt_set.origin.is_own:
        return
    for flag in (*extra, *(() if current is None else current.flags)):
        if flag.name in _ALWAYS or (flag.name in _LEVELS and _is_too_much(flag.value)):
            raise _refusal(" ".join(flag.tokens))
    for name, value in ({} if current is None else current.environment).items():
        if name in _VARIABLES and _is_too_much(value):
            raise _refusal(f"{name}={value}")


def _is_too_much(level: str | None) -> bool:
    try:
        return int(level or "") > MOST_VERBOSE
    except ValueError:
        return False  # the engine will say so


def _refusal(what: str) -> UsageError:
    return UsageError(
        f"{what} makes llama-server write down what it is asked, and --prompts are your own; leave it out, or "
        "give --keep-text if they may be kept"
    )
