"""A best.json that a user names: a file, or a study for its best."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

from tuner.cli.study_folder import BEST, DATABASE, find_study
from tuner.errors import StudyError
from tuner.report.best import check_best
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class BestFile:
    """A best.json, and the study that it is of."""

    path: Path
    document: Mapping[str, Any]
    study: Path | None
    """The folder of its study; None where that is gone."""

    def store(self) -> StudyStore | None:
        """The study's record; None where that is gone, or was written by another version."""
        if self.study is None:
            return None
        try:
            return StudyStore.open(self.study / DATABASE)
        except StudyError:
            return None


def read_best(named: str, results: Path) -> BestFile:
    """Read it.

    Args:
        named: A path, or the name of a study.
        results: Where studies are kept.

    Raises:
        StudyError: There is none, or it is no best.json.
    """
    path = Path(named)
    if not path.is_file():
        path = find_study(named, results) / BEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        check_best(document)
    except FileNotFoundError as error:
        raise StudyError(f"{path.parent}: nothing is known to be best there (no {BEST})") from error
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise StudyError(f"{path} is no {BEST}: it is no JSON ({error})") from error
    except jsonschema.ValidationError as error:
        where = ".".join(map(str, error.absolute_path)) or "the document"
        raise StudyError(f"{path} is no {BEST} of this version: {where}: {error.message[:200]}") from error
    return BestFile(path, document, _study_of(path, document, results))


def _study_of(path: Path, document: Mapping[str, Any], results: Path) -> Path | None:
    """The folder of the study that a file is of: beside it, below it where it is of several, or among the results."""
    beside, name = path.absolute().parent, document["study"]["name"]
    for folder in (beside, beside / name, results / name):
        if not (folder / DATABASE).is_file():
            continue
        try:
            facts = StudyStore.open(folder / DATABASE).facts
        except StudyError:
            continue
        if facts["study"]["created"] == document["study"]["created"]:
            return folder
    return None
