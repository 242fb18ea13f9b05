"""`tuner retune`: what has changed, and what is to be done about it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tuner.cli.best_file import read_best
from tuner.cli.build.changed import Changed, RetuneOptions, look_at
from tuner.cli.dates import now
from tuner.cli.history import known_of, winner_name
from tuner.cli.measuring import measure_claim
from tuner.cli.retune_run import retune_study
from tuner.cli.retune_screen import claim_line, freshness_screen
from tuner.core.freshness.change import Change, Freshness, worst
from tuner.core.history import basis_of, measured_unchanged
from tuner.engine.environment import empty_config_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXIT_CODES: Mapping[Freshness, int] = {Freshness.FRESH: 0, Freshness.DOUBTFUL: 1, Freshness.STALE: 2}
_MEANS: Mapping[Freshness, str] = {
    Freshness.FRESH: "nothing that the result depends on has changed.",
    Freshness.DOUBTFUL: "only launches tell whether it still holds: tuner retune, or --measure for the claim alone.",
    Freshness.STALE: "it does not hold for what there is now.",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of a retune."""

    check: bool
    measure: bool
    again: bool
    as_json: bool
    yes: bool


def run_retune(named: str, options: RetuneOptions, asked: Asked) -> None:
    """Look, say, and launch what was asked for.

    Raises:
        TunerError: It cannot start or go on.
        typer.Exit: The result is in doubt, or there is no better one.
    """
    config_home = empty_config_home()
    best = read_best(named, options.results)
    changed = look_at(best, options, os.environ, config_home, created=now())
    since = _measured_since(changed, options)
    changes = [*changed.changes, *since]
    state = worst(changed.changes)
    if since and state is Freshness.DOUBTFUL:
        state = Freshness.FRESH
    if asked.as_json:
        typer.echo(json.dumps(_document(changed, changes, state), indent=2, ensure_ascii=False))
    else:
        typer.echo(claim_line(best.document, winner_name(best.document)))
        for line in freshness_screen(changes, shutil.get_terminal_size().columns):
            typer.echo(line)
        means = _MEANS[state] if state is worst(changed.changes) else "it was measured since the change."
        typer.echo(f"{state.value.capitalize()}: {means}")
    if asked.measure:
        code = EXIT_CODES[measure_claim(changed, options)]
    elif asked.check:
        code = EXIT_CODES[state]
    else:
        code = retune_study(changed, options, os.environ, config_home, again=asked.again, yes=asked.yes)
    if code:
        raise typer.Exit(code)


def _measured_since(changed: Changed, options: RetuneOptions) -> list[Change]:
    """That a retune has found it unchanged in just this state of things; nothing where none has."""
    entries = known_of(changed.assembly.rig, options.facts)
    entry = measured_unchanged(entries, basis_of(changed.best.document), changed.state)
    if entry is None:
        return []
    what = f"unchanged, as a retune found on {entry.date[:10]} ({entry.study})"
    return [Change("measured", Freshness.FRESH, what)]


def _document(changed: Changed, changes: Sequence[Change], state: Freshness) -> dict[str, Any]:
    return {
        "state": state.value,
        "best": str(changed.best.path),
        "changes": [
            {"part": one.part, "state": one.state.value, "what": one.what, "doubt": one.doubt}
            for one in changes
        ],
    }
