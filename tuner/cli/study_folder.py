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
RETUNED = "retuned.json"
REGRESSION = "regression.md"
LADDER = "ladder.json"
LADDER_TABLE = "ladder.md"
TABLE = "table.json"


def find_study(study: str, results: Path) -> Path:
    """The folder of a study: a path, or a name in the results folder.

    Raises:
        StudyError: There is none.
    """
    for folder in (Path(study), results / study):
        if (folder / DATABASE).is_file():
            return folder
    known = sorted(path.parent.name for path in results.glob(f"*/{DATABASE}")) if results.is_dir() else []
    there = f"studies in {results}: {', '.join(known)}" if known else f"{results} holds no study"
    raise StudyError(f"{study}: no study there; {there}")


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
