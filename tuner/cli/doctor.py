"""`tuner doctor`: what is right and wrong with this machine, engine and model before anything is launched."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.checkup_screen import checkup_screen
from tuner.core.checkup.check import Level, count
from tuner.errors import PlatformError

FOUND_A_PROBLEM = 1


def doctor(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL.gguf", help="A model to check as well.", show_default=False),
    ] = None,
    flags: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- FLAGS]...", help="Flags of llama-server: --rpc host:port,host:port."),
    ] = None,
    server: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The llama-server to check; default: the one on the PATH."),
    ] = None,
    devices: Annotated[
        str | None, typer.Option(metavar="LIST", help="Devices to use and their order, such as CUDA0,CUDA1.")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="The checks as JSON.")] = False,
) -> None:
    """Say what is wrong with engine, devices, machine or model.

    Exit code 1 if there is a problem. No server is started and nothing is changed.
    """
    if sys.platform != "linux":
        raise PlatformError("tuner doctor runs on Linux and WSL2; here, commands that only read files work")
    words = list(flags or ())
    if model is not None and str(model).startswith("-"):  # `tuner doctor -- --rpc ...`: no model was given
        words.insert(0, str(model))
        model = None
    # what looks at the machine needs Linux; reading a study does not
    from tuner.cli.build.checkup import DoctorOptions, examine  # noqa: PLC0415
    from tuner.engine.environment import empty_config_home  # noqa: PLC0415

    options = DoctorOptions(model=model, server=server, devices=devices, results=results, flags=tuple(words))
    checks = examine(options, os.environ, empty_config_home())
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=2, ensure_ascii=False))
    else:
        for line in checkup_screen(checks, shutil.get_terminal_size().columns):
            typer.echo(line)
    if count(checks, Level.PROBLEM):
        raise typer.Exit(FOUND_A_PROBLEM)
