"""What was best when, with which build: kept after each run, and shown by `tuner show --history`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from tuner.core.candidate import Candidate
from tuner.core.history import Entry, entry_of
from tuner.core.launch import reference_name
from tuner.errors import RigError
from tuner.rig.history import History

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tuner.core.rig import Rig
    from tuner.rig.history import RigHistory


def winner_name(best: Mapping[str, Any]) -> str:
    """What people call the winner of a best.json."""
    winner = best["winner"]
    if winner["reference"] is not None:
        return reference_name(winner["reference"])
    return Candidate.from_json(winner["parameters"]).summary()


def remember_best(
    best: Mapping[str, Any],
    rig: Rig,
    facts: Path | None,
    *,
    verdict: str | None = None,
    basis: str | None = None,
    state: str | None = None,
) -> None:
    """Keep with the rig what is best now; a folder that cannot be written is said, and costs nothing else.

    Args:
        best: A best.json.
        rig: The devices.
        facts: Where what rigs have taught is kept; the user's data folder if None.
        verdict: What a retune said of the best of before.
        basis: Which result it was made of.
        state: Digest of what it depends on.
    """
    remember(entry_of(best, winner_name(best), verdict=verdict, basis=basis, state=state), rig, facts)


def remember(entry: Entry, rig: Rig, facts: Path | None) -> None:
    """Keep with the rig one more entry of its history; see `remember_best`."""
    devices = [f"{device.name}: {device.description}" for device in rig.devices]
    try:
        History(rig.identity, facts).add(entry, devices)
    except RigError as error:
        with contextlib.suppress(OSError):  # the terminal may be gone
            typer.echo(f"What was best is not kept: {error}")


def known_of(rig: Rig, facts: Path | None) -> tuple[Entry, ...]:
    """What was best on a rig, the oldest first."""
    return History(rig.identity, facts).load().entries


def history_table(history: RigHistory) -> Table:
    """What was best on one rig, a line each, the newest last."""
    table = Table(
        title=", ".join(history.devices) or "devices unknown",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("date", no_wrap=True)
    table.add_column("build", overflow="fold")
    table.add_column("model", overflow="fold")
    table.add_column("best", overflow="fold")
    for name in ("context", "tok/s", "times", "(95 %)"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("study", overflow="fold")
    for entry in history.entries:
        build = f"{entry.engine_version.removeprefix('version: ')} [{entry.engine_digest[:8]}]"
        said = "" if entry.verdict is None else f"{entry.verdict}: "
        table.add_row(
            entry.date[:10],
            build,
            entry.model,
            f"{said}{entry.configuration}",
            f"{entry.context:,}",
            "-" if entry.score_tok_s is None else f"{entry.score_tok_s:.1f}",
            "-" if entry.ratio is None else f"{entry.ratio:.2f}",
            "-" if entry.low is None or entry.high is None else f"{entry.low:.2f}-{entry.high:.2f}",
            entry.study,
        )
    return table
