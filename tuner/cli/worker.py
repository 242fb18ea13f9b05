"""`tuner worker`: work on a study that another machine has made."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.notify import Notifier
from tuner.cli.saying import say
from tuner.cli.storage_options import Storage, StorageFile  # noqa: TC001 - Typer reads them
from tuner.errors import PlatformError


def worker(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study in the storage.")],
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- FLAGS",
            help="Flags of llama-server for every launch instead of the study's, such as this machine's --rpc.",
        ),
    ] = None,
    storage: Storage = None,
    storage_file: StorageFile = None,
    model: Annotated[
        Path | None, typer.Option(metavar="GGUF", help="Where the model lies on this machine, if elsewhere.")
    ] = None,
    server: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The llama-server of this machine, if elsewhere.")
    ] = None,
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the trials of this machine are kept.")
    ] = Path("results"),
    facts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where what this rig has taught is kept; default: your data folder."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be launched, and stop.")
    ] = False,
) -> None:
    """Join a study that `tuner tune --storage` has made on another machine with like devices.

    Run the same command again to go on where it stopped. Several workers may be started and ended at any time.
    """
    if sys.platform != "linux":
        raise PlatformError("tuner worker runs on Linux and WSL2; here, commands that only read files work")
    from tuner.cli.build.joining import Place  # noqa: PLC0415 - Optuna takes a second
    from tuner.cli.sharing import join_and_work  # noqa: PLC0415 - as above
    from tuner.study.location import location_of  # noqa: PLC0415 - as above

    location = location_of(storage, storage_file, os.environ, required=True)
    assert location is not None  # noqa: S101 - required
    place = Place(results, facts, model, server, tuple(flags or ()))
    notifier = Notifier(on_improvement=None, on_finish=None, say=say)
    join_and_work(study, location, place, notifier, yes=yes, dry_run=dry_run)
