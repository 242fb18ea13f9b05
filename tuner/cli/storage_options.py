"""The options that say where a study of several machines lies, for all commands that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where a study of several machines lies: postgresql+psycopg://USER@HOST/DB or grpc://HOST:PORT, without "
        "a password; default: TUNER_STORAGE, else a folder of its own.",
    ),
]
SharedStorage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="URL",
        help="Read it where several machines share it: postgresql+psycopg://USER@HOST/DB or grpc://HOST:PORT; "
        "default: the folder here, else TUNER_STORAGE.",
    ),
]
StorageFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The same address, a password too, as a file's first line."),
]
