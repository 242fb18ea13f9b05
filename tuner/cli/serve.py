"""`tuner serve`: the winner, on the rig that it was tuned for."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.build.served import read_best, read_serving, winner_served
from tuner.cli.places import Places
from tuner.cli.saying import note
from tuner.cli.serving_options import (  # noqa: TC001 - Typer reads them
    Alias,
    ApiKeyFile,
    Host,
    ModelPath,
    Port,
)
from tuner.cli.storage_options import SharedStorage, StorageFile  # noqa: TC001 - as above
from tuner.core.sameness import differences
from tuner.engine.environment import serving_environment
from tuner.errors import EngineError, PlatformError, StudyError


def serve(
    best: Annotated[
        str, typer.Argument(metavar="BEST.JSON|STUDY", help="A best.json, or a study for its best.")
    ],
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Start it although rig, engine or model are others.")
    ] = False,
    model_path: ModelPath = None,
    host: Host = None,
    port: Port = None,
    api_key_file: ApiKeyFile = None,
    alias: Alias = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    storage: SharedStorage = None,
    storage_file: StorageFile = None,
) -> None:
    """Start the llama-server of a best.json, if all is as it was tuned for.

    The server takes this program's place: signals, output and exit code are its own.
    """
    if sys.platform != "linux":
        raise PlatformError(
            "tuner serve runs on Linux and WSL2; tuner export --format powershell writes a script"
        )
    from tuner.cli.build.as_it_is import as_it_is  # noqa: PLC0415 - devices and file locks are looked at on Linux only

    places = Places(results, storage, storage_file, os.environ)
    serving = read_serving(
        model_path=model_path, host=host, port=port, api_key_file=api_key_file, alias=alias
    )
    winner = winner_served(read_best(best, places), serving, note)
    environment = serving_environment(os.environ, winner.environment)
    found = differences(
        winner.document, as_it_is(winner, environment), [device.name for device in winner.devices]
    )
    if found and not anyway:
        raise StudyError(
            f"not what it was tuned for: {'; '.join(found)}; tune again, or start it with --anyway"
        )
    for sentence in found:
        note(sentence)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(winner.program, [winner.program, *winner.words], environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise EngineError(f"{winner.program} cannot be started: {error.strerror or error}") from error
