"""A command that was written for another build, in the words of the one that is asked about."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.cli.build.checked_memory import public
from tuner.engine.changed_command import words_of
from tuner.engine.checked_command import CheckedCommand, flags_of, is_stray
from tuner.engine.flag_history import flag_change
from tuner.engine.known_builds import known_build, newest_build
from tuner.engine.probe import read_help
from tuner.engine.translation import ChangeKind, translate
from tuner.engine.written_for import written_for
from tuner.errors import EngineError
from tuner.report.best import shell_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.engine.help_text import HelpText
    from tuner.engine.probe import Engine
    from tuner.engine.translation import Change

_PROGRAM = "llama-server"


@dataclass(frozen=True, slots=True)
class Source:
    """The build that a command is for, and how that is known."""

    help: HelpText
    label: str


@dataclass(frozen=True, slots=True)
class CheckedTranslation:
    """A command in another build's words."""

    command: CheckedCommand
    """As that build takes it."""
    source: str
    """The build that it was written for."""
    target: str
    """The build that it is translated for."""
    changes: tuple[Change, ...]

    @property
    def shown(self) -> str:
        """One line for a shell."""
        program = self.command.program or _PROGRAM
        return shell_command((program, *words_of(self.command)), public(self.command))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "command": self.shown,
            "from": self.source,
            "to": self.target,
            "changes": [
                {
                    "kind": change.kind.value,
                    "before": change.before,
                    "after": change.after,
                    "why": change.why,
                }
                for change in self.changes
            ],
        }


def source_of(
    command: CheckedCommand,
    target: HelpText,
    given: str | None,
    engine: Engine | None,
    environment: Mapping[str, str],
) -> Source | None:
    """The build that a command is for.

    Args:
        command: As typed.
        target: What the build lists that it is translated for.
        given: What the user says: a number of a known build, or the path of a llama-server.
        engine: The engine that would run it; None where there is none.
        environment: For asking a llama-server.

    Returns:
        What the user says, else the command's own llama-server where it is another one, else what its flags tell.
        None where they tell of no other build.

    Raises:
        UsageError: A build whose help text is not known.
        EngineError: A path that is no llama-server.
    """
    if given is not None:
        if given.isdecimal():
            return Source(known_build(int(given)).help, f"build {given}")
        return Source(read_help(Path(given).expanduser(), environment), given)
    own = _own_program(command, engine)
    if own is not None:
        # one that is gone, or of another machine: the flags tell as much as they can
        with contextlib.suppress(EngineError):
            help_text = read_help(own, environment)
            if is_taken(command, help_text):
                return Source(help_text, str(own))
    build = written_for(words_of(command), target)
    return None if build is None else Source(build.help, f"build {build.number}, as its flags tell")


def translated(
    command: CheckedCommand,
    source: Source | None,
    target: HelpText,
    label: str,
    *,
    program: str | None = None,
) -> CheckedTranslation | None:
    """The command in the words of another build; None where nothing changes.

    Args:
        command: As typed.
        source: The build that it is for; None for the target itself.
        target: What the build lists that it is translated for.
        label: What that build is called.
        program: The llama-server to write; None for the command's own.
    """
    if source is None:
        return None
    result = translate(words_of(command), source.help, target, command.environment)
    if not result.changes:
        return None
    flags = flags_of(result.words, target)
    new = CheckedCommand(result.environment, program or command.program, flags)
    return CheckedTranslation(new, source.label, label, result.changes)


def for_newest(command: CheckedCommand, engine: Engine) -> CheckedTranslation | None:
    """A command that an engine takes as it stands, in the words of the newest known build, if they are others.

    None as well for an engine that is newer, or a fork: it lists flags that the newest known build never had.
    """
    newest = newest_build()
    listed = {one for entry in engine.help.entries for one in entry.spellings if engine.help.entry(one)}
    if any(newest.help.entry(one) is None and flag_change(one) is None for one in listed):
        return None
    source = Source(engine.help, "this llama-server")
    label = f"build {newest.number}, the newest known here"
    result = translated(command, source, newest.help, label, program=_PROGRAM)
    only_differs = result is not None and {change.kind for change in result.changes} == {ChangeKind.DIFFERS}
    return None if only_differs else result


def is_taken(command: CheckedCommand, help_text: HelpText) -> bool:
    """Whether a build lists all flags of a command."""
    return all(flag.name is not None or is_stray(flag) for flag in flags_of(words_of(command), help_text))


def _own_program(command: CheckedCommand, engine: Engine | None) -> Path | None:
    """The command's own llama-server, where it is another one than that which would run it."""
    if not command.program.rpartition("/")[2].startswith(_PROGRAM):
        return None
    found = shutil.which(os.path.expanduser(command.program))  # noqa: PTH111 - as the shell does
    if found is None or (engine is not None and Path(found).resolve() == engine.path):
        return None
    return Path(found)
