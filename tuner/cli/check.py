"""`tuner check`: what a llama-server command would do here, without launching it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tuner.cli.check_screen import memory_table
from tuner.cli.checkup_screen import checkup_screen
from tuner.cli.study_folder import DATABASE, find_study
from tuner.cli.translation_screen import translation_screen
from tuner.errors import PlatformError, StudyError
from tuner.report.best import shell_command, shown
from tuner.search.confirmation.result import winner_of

FOUND_SOMETHING = 1


def check(
    command: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND|STUDY",
            help="A command in quotes: 'llama-server -m ...'; or a study, for its best.",
        ),
    ],
    server: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The llama-server that would run it; default: the command's own."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BUILD|PATH",
            help="The build that it was written for, such as 9246; default: its own, or as its flags tell.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change an option first: --set tensor-split=2,3."),
    ] = None,
    device_memory: Annotated[
        str | None,
        typer.Option(
            metavar="DEV=MIB,...", help="Free memory of devices, those of another machine too: CUDA0=15900."
        ),
    ] = None,
    reserve: Annotated[
        str | None,
        typer.Option(metavar="DEV=MIB,...", help="MiB to keep free on a device, such as 0=2048,1=256."),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    facts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where what rigs have taught is kept; default: your data folder."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Say what a llama-server command would do here, without launching it.

    What lies on which device, what exceeds it and at which step, which flags are wrong, without effect or gone, and
    a command of another build in the words of this one. Exit code 1 if there is something to say against it.
    """
    if sys.platform != "linux":
        raise PlatformError("tuner check runs on Linux and WSL2; here, commands that only read files work")
    # what looks at the machine needs Linux; reading a study does not
    from tuner.cli.build.check import check_command  # noqa: PLC0415
    from tuner.cli.build.checked import CheckOptions  # noqa: PLC0415
    from tuner.engine.environment import empty_config_home  # noqa: PLC0415

    text, of_study = _command_of(command, results)
    options = CheckOptions(
        text,
        server,
        tuple(settings or ()),
        device_memory,
        reserve,
        facts,
        measured_with=of_study,
        source=source,
    )
    checked = check_command(options, os.environ, empty_config_home())
    if as_json:
        typer.echo(json.dumps(checked.to_json(), indent=2, ensure_ascii=False))
    else:
        width = shutil.get_terminal_size().columns
        typer.echo(checked.command)
        if checked.engine is not None:
            typer.echo(f"by {checked.engine.path}, {checked.engine.version}")
        if checked.rows:
            Console(width=width).print(memory_table(checked, width))
        for line in checkup_screen(checked.checks, width):
            typer.echo(line)
        if checked.translation is not None:
            for line in ("", *translation_screen(checked.translation, width)):
                typer.echo(line)
        if checked.works is not None:
            typer.echo(
                f"A line that works ({checked.works_by}):" if checked.works_by else "A line that works:"
            )
            typer.echo(checked.works)
    if checked.found:
        raise typer.Exit(FOUND_SOMETHING)


def _command_of(text: str, results: Path) -> tuple[str, Path | None]:
    """The command to look at, and the engine that it was measured with; a word alone names a study."""
    if " " in text.strip() or text.strip().startswith("-"):
        return text, None
    from tuner.study import StudyStore  # noqa: PLC0415 - Optuna takes a second that a command does not need

    folder = find_study(text, results)
    store = StudyStore.open(folder / DATABASE)
    records, confirmation = store.records(), store.confirmation()
    key = winner_of(confirmation, records)
    if key is None:
        raise StudyError(f"{folder}: nothing was measured yet, so there is no command to look at")
    winner = shown(key, records, confirmation)
    return shell_command(winner.argv, winner.environment), Path(winner.argv[0])
