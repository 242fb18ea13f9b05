"""The command `tuner`."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Annotated

import typer

from tuner import __version__
from tuner.cli.check import check
from tuner.cli.diagnose import diagnose
from tuner.cli.doctor import doctor
from tuner.cli.export import export
from tuner.cli.report import report
from tuner.cli.retune import retune
from tuner.cli.serve import serve
from tuner.cli.show import show
from tuner.cli.tune import tune
from tuner.cli.worker import worker
from tuner.errors import TunerError

CANNOT_GO_ON = 2

app = typer.Typer(
    name="tuner",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("doctor")(doctor)
app.command("check")(check)
app.command("tune")(tune)
app.command("worker")(worker)
app.command("retune")(retune)
app.command("show")(show)
app.command("report")(report)
app.command("export")(export)
app.command("serve")(serve)
app.command("diagnose")(diagnose)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tuner {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Finds the fastest llama-server configuration for two GPUs that do not match, with proof."""


def main() -> None:
    """Run the command; an error of ours is one message on standard error and exit code 2."""
    try:
        app()
    except TunerError as error:
        # one line, whatever of an engine's or a library's words it quotes
        typer.echo(f"error: {' '.join(str(error).splitlines())}", err=True)
        sys.exit(CANNOT_GO_ON)
    finally:
        _let_go_of_output()


def _let_go_of_output() -> None:
    """Flush; where the terminal or a pipe is gone, drop what is left, or Python would end with 120 for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
