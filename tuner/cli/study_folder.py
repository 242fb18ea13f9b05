"""Finding and opening a study's folder."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tuner.errors import ResultsError, StudyError

DATABASE = "study.db"
BEST = "best.json"
REPORT = "report.html"
ENGINE_HELP = "engine-help.txt"
WORKER = "worker.json"
RETUNED = "retuned.json"
REGRESSION = "regression.md"
LADDER = "ladder.json"
LADDER_TABLE = "ladder.md"
TABLE = "table.json"
TABLE_TEXT = "table.md"


def find_study(study: str, results: Path) -> Path:
    """The folder of a study: a path, or a name in the results folder; of several engines and files, the winner's.

    Raises:
        StudyError: There is none.
    """
    for folder in (Path(study), results / study):
        if (folder / DATABASE).is_file():
            return folder
        winner = _winner_of(folder / TABLE)
        if winner is not None and (folder / winner / DATABASE).is_file():
            return folder / winner
    found = [*results.glob(f"*/{DATABASE}"), *results.glob(f"*/{TABLE}")] if results.is_dir() else []
    known = sorted({path.parent.name for path in found})
    there = f"studies in {results}: {', '.join(known)}" if known else f"{results} holds no study"
    if any((folder / WORKER).is_file() for folder in (Path(study), results / study)):
        there += (
            "; this machine has worked on a shared one of that name: say where it lies with --storage URL"
        )
    raise StudyError(f"{study}: no study there; {there}")


def find_table(study: str, results: Path) -> Path | None:
    """The table of a ladder of contexts, or of several engines and files; None where that is neither."""
    folders, names = (Path(study), results / study), (LADDER_TABLE, TABLE_TEXT)
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def _winner_of(table: Path) -> str | None:
    """The study that a table of engine by file says is the winner; None where it says none, or cannot be read."""
    try:
        winner = json.loads(table.read_text(encoding="utf-8"))["winner"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return winner if isinstance(winner, str) else None


def find_ladder(study: str, results: Path) -> Path | None:
    """The folder of a ladder of contexts; None where that is none."""
    return next((one for one in (Path(study), results / study) if (one / LADDER_TABLE).is_file()), None)


def rungs_of(ladder: Path) -> list[Path]:
    """The studies of a ladder, the smallest context first."""
    found = [database.parent for database in ladder.glob(f"*/{DATABASE}") if database.parent.name.isdecimal()]
    return sorted(found, key=lambda folder: int(folder.name))


def read_retuned(folder: Path) -> dict[str, Any] | None:
    """What a retune that came to its end has found out; None where none has."""
    try:
        document: dict[str, Any] = json.loads((folder / RETUNED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if (folder / DATABASE).is_file() else None


def check_writable(folder: Path) -> None:
    """Check that a study can be written there, and write nothing.

    Raises:
        ResultsError: It cannot.
    """
    place = folder
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise ResultsError(
            f"{place} is in the way: results are to go to {folder}, choose another with --results"
        )
    if not os.access(place, os.W_OK | os.X_OK) or not _takes_a_file(place):
        raise ResultsError(f"{place} cannot be written; choose another folder with --results")


def _takes_a_file(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
