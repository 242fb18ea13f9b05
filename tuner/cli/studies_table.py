"""`tuner show --storage URL`: the studies that a storage holds, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tuner.report.headline import winning
from tuner.report.proof import label
from tuner.report.words import NOTHING, scored
from tuner.study import SharedStore

if TYPE_CHECKING:
    from tuner.study.location import Location


def show_studies(location: Location) -> None:
    """Print them.

    Raises:
        StudyError: The storage cannot be used.
    """
    stores, unreadable = SharedStore.every(location)
    typer.echo(f"Shared: {location}")
    if stores:
        Console(markup=False).print(_table(stores))  # configurations may hold brackets
    elif not unreadable:
        typer.echo("It holds no study.")
    if unreadable:
        typer.echo(f"Of another program, or another version of the tuner: {', '.join(unreadable)}.")


def _table(stores: list[SharedStore]) -> Table:
    table = Table(title="Studies", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("study", "model"):
        table.add_column(name, overflow="fold")
    table.add_column("trials", justify="right", no_wrap=True)
    for name in ("best so far", "state"):
        table.add_column(name, overflow="fold")
    for store in stores:
        records = store.records()
        best = winning(records, store.confirmation())
        made = NOTHING if best is None else label(best)
        if best is not None and best.rates is not None:
            made = f"{made}: {scored(best, best.rates)}"
        name = (
            store.name
            if store.parent is None
            else f"{store.name} (another class of rigs than {store.parent}'s)"
        )
        table.add_row(name, store.facts["model"]["name"], str(len(records)), made, _state(store))
    return table


def _state(store: SharedStore) -> str:
    if any(part.works for part in store.workers()):
        return "running"
    ended = store.ended()
    return "not complete, no worker at it" if ended is None else f"complete: {ended.why}"
