"""The options that say where and as what a winner is served, for all commands that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelPath = Annotated[Path | None, typer.Option(metavar="GGUF", help="Where the model lies, if elsewhere.")]
Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where it listens; default: the engine's.")]
Port = Annotated[int | None, typer.Option(metavar="N", help="At which port; default: the engine's.")]
ApiKeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="File with the keys of its API.")]
Alias = Annotated[str | None, typer.Option(metavar="NAME", help="The model's name in its API.")]
