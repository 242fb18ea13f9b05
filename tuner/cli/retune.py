"""`tuner retune`: its options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.option_values import duration_s
from tuner.errors import PlatformError, UsageError

DEFAULT_LAUNCHES = 24
DEFAULT_BLOCKS = 3


def retune(
    best: Annotated[
        str, typer.Argument(metavar="BEST.JSON|STUDY", help="A best.json, or a study for its best.")
    ],
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- FLAGS]...",
            help="Flags of llama-server that are other now than in the study: --rpc host:port,host:port.",
        ),
    ] = None,
    server: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The llama-server of now; default: what is where the old one was."),
    ] = None,
    old_server: Annotated[
        Path | None,
        typer.Option(
            "--old-server", metavar="PATH", help="Where the old llama-server is; default: where it was."
        ),
    ] = None,
    old_rpc: Annotated[
        str | None,
        typer.Option(
            "--old-rpc", metavar="LIST", help="RPC servers of the old build, if they are others now."
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="GGUF", help="Another file of the same shape: moved, or in another quantisation."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the result still holds; nothing is launched.")
    ] = False,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Only measure what the result claims: the winner and the reference."),
    ] = False,
    launches: Annotated[
        int, typer.Option(metavar="N", help="Launches in all, the canary's among them.")
    ] = DEFAULT_LAUNCHES,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time for it, such as 20m; default: any.")
    ] = None,
    confirm: Annotated[
        int, typer.Option(metavar="N", help="Launches a side that compare now with then.")
    ] = DEFAULT_BLOCKS,
    quality: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|off", help="Look so long at each launch's answers; default: as the study did."
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the new study; default: the old one's and what has changed."
        ),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    facts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where what this rig has taught is kept; default: your data folder."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Begin anew, although this was found out before.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: the same as JSON.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
) -> None:
    """Say whether a result still holds after an upgrade or another change, and find the best of now.

    The old best is launched in turns with what it was; then the search goes on from what is known. The old best.json
    stays as it is: a new best gets a study of its own. With --check exit code 0 says fresh, 1 doubtful, 2 stale.
    """
    if sys.platform != "linux":
        raise PlatformError("tuner retune runs on Linux and WSL2; here, commands that only read files work")
    if confirm < 2:
        raise UsageError(f"--confirm: must be at least 2, got {confirm}: one launch shows no spread")
    # what runs needs Linux (file locks, signals); reading a study does not
    from tuner.cli.build.changed import RetuneOptions  # noqa: PLC0415
    from tuner.cli.retuning import Asked, run_retune  # noqa: PLC0415

    options = RetuneOptions(
        server=server,
        old_server=old_server,
        old_rpc=old_rpc,
        model=model,
        flags=tuple(flags or ()),
        results=results,
        study=study,
        facts=facts,
        launches=launches,
        seconds=None if budget is None else duration_s(budget),
        blocks=confirm,
        quality=quality,
    )
    run_retune(best, options, Asked(check=check, measure=measure, again=again, as_json=as_json, yes=yes))
