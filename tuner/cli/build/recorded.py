"""The options of a study as they are kept with it, so that the same can be asked again."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.cli.build.options import TuneOptions
from tuner.cli.space_files import shipped_spaces
from tuner.core.objective import Objective
from tuner.core.workload import Thinking
from tuner.errors import UsageError
from tuner.prompts.reader import builtin_sets
from tuner.report.best import shell_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.engine.user_command import UserCommand

#: Where a study goes and how much it may use: they say nothing of what is measured.
_OF_THE_RUN = frozenset(
    {"study", "results", "budget_s", "launches", "confirm_blocks", "soak", "endure_s", "facts"}
)
_ENUMS: Mapping[str, type[StrEnum]] = {"thinking": Thinking, "objective": Objective}
_PATHS = frozenset({"model", "server", "draft_model"})


def recorded(options: TuneOptions, current: UserCommand | None) -> dict[str, Any]:
    """What was asked for, in plain JSON: paths are absolute, and keys of the user's command are left out.

    Args:
        options: As typed.
        current: The user's own command, taken apart; None where none was given.
    """
    found: dict[str, Any] = {}
    for field in fields(TuneOptions):
        if field.name in _OF_THE_RUN:
            continue
        value = getattr(options, field.name)
        if isinstance(value, Path):
            value = str(value.absolute())
        elif field.name in {"space", "prompts"} and value not in (*shipped_spaces(), *builtin_sets()):
            value = str(Path(value).absolute())
        elif isinstance(value, StrEnum):
            value = value.value
        elif isinstance(value, tuple):
            value = list(value)
        found[field.name] = value
    found["current"] = None if current is None else _clean(current)
    return found


def options_of(document: Mapping[str, Any], of_the_run: Mapping[str, Any]) -> TuneOptions:
    """The options out of what `recorded` made.

    Args:
        document: What was recorded.
        of_the_run: The options that are not recorded, by the names of `TuneOptions`.

    Raises:
        UsageError: Something is missing, or of another form.
    """
    known = {field.name for field in fields(TuneOptions)}
    if missing := known - _OF_THE_RUN - document.keys():
        raise UsageError(
            f"the options that it was made with are not complete (no {', '.join(sorted(missing))}): it was written "
            "by another version of the tuner; tune again with this one"
        )
    values = {name: value for name, value in document.items() if name in known}
    try:
        for name, kind in _ENUMS.items():
            values[name] = None if values[name] is None else kind(values[name])
        for name in _PATHS:
            values[name] = None if values[name] is None else Path(values[name])
        values["flags"] = tuple(values["flags"])
    except (TypeError, ValueError) as error:
        raise UsageError(f"the options that it was made with cannot be read: {error}") from error
    return TuneOptions(**{**values, **of_the_run})


def _clean(current: UserCommand) -> str:
    return shell_command(["llama-server", *current.argv], current.environment)
