"""A study that is opened for reading, wherever it lies."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.cli.build.joining import folder_name, study_of_worker
from tuner.cli.dates import now
from tuner.cli.study_folder import DATABASE, find_study
from tuner.errors import StudyError
from tuner.report.best import best_document
from tuner.runs.trial_folder import TrialFolder
from tuner.study import SharedStore, StudyStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.cli.places import Places
    from tuner.core.telemetry import GpuReading
    from tuner.study import Kept, Part, TrialStore
    from tuner.study.location import Location


@dataclass(frozen=True, slots=True)
class OpenedStudy:
    """A study, and what of it is on this machine."""

    store: TrialStore
    folder: Path | None
    """Its folder here; of a shared one that of this machine's worker, if there is one."""

    @property
    def shared(self) -> SharedStore | None:
        """Its record where several machines work on it; None for one of this machine alone."""
        return self.store if isinstance(self.store, SharedStore) else None

    @property
    def place(self) -> str:
        """Where it lies, for people."""
        return str(self.folder) if self.shared is None else self.store.place

    @property
    def folder_name(self) -> str:
        """What its folder is called, or would be if it were here."""
        if self.shared is None:
            return str(self.store.facts["study"]["name"])
        return Path(folder_name(self.shared.name)).name

    @property
    def own_folder(self) -> Path | None:
        """The folder that holds all of it; None for a shared one."""
        return self.folder if self.shared is None else None

    def kept(self) -> Mapping[int, Kept]:
        """What there is of each trial's folder, by number; where it lies does not matter."""
        if self.shared is not None:
            return self.shared.kept()
        return {record.number: self._folder(record.number).kept() for record in self.store.records()}

    def readings(self, number: int) -> tuple[GpuReading, ...]:
        """What the driver said of each card during a trial, whole; only the machine that made it has this."""
        return () if self.folder is None else self._folder(number).readings()

    def workers(self) -> tuple[Part, ...]:
        """Who takes part in a shared study; nobody in another."""
        return () if self.shared is None else self.shared.workers()

    def is_running(self) -> bool:
        """Whether a run goes on with it."""
        if self.shared is not None:
            return any(part.works for part in self.workers())
        if sys.platform != "linux" or self.folder is None:
            return False
        from tuner.rig.lock import holder_of  # noqa: PLC0415 - file locks are Linux's

        return holder_of(str(self.folder.resolve())) is not None

    def best(self, purpose: str) -> dict[str, Any]:
        """best.json as it is now.

        Args:
            purpose: What there is nothing for if nothing was measured yet, such as `export`.

        Raises:
            StudyError: Nothing was measured yet.
        """
        store = self.store
        document = best_document(store.records(), store.facts, date=now(), confirmation=store.confirmation())
        if document is None:
            raise StudyError(f"{self.place}: nothing was measured yet, so there is nothing to {purpose}")
        return document

    def _folder(self, number: int) -> TrialFolder:
        assert self.folder is not None  # noqa: S101 - for the type checker; callers have looked
        return TrialFolder.of(self.folder, number)


def open_study(study: str, places: Places) -> OpenedStudy:
    """Open a study for reading.

    Args:
        study: Its name; where it is looked for on this machine, also its folder.
        places: Where it is looked for.

    Raises:
        StudyError: There is none, or it cannot be read.
        UsageError: The storage that is named is none.
    """
    if places.is_shared_alone:
        location = places.location()
        assert location is not None  # noqa: S101 - for the type checker; it is named
        return _open_shared(location, study, places.results)
    try:
        folder = find_study(study, places.results)
    except StudyError as here:
        location = places.location()
        if location is None:
            raise
        try:
            return _open_shared(location, study, places.results)
        except StudyError as there:
            raise StudyError(f"{here}; {there}") from there
    return OpenedStudy(StudyStore.open(folder / DATABASE), folder)


def _open_shared(location: Location, study: str, results: Path) -> OpenedStudy:
    store = SharedStore.open(location, study)
    folder = results / folder_name(store.name)
    return OpenedStudy(store, folder if study_of_worker(folder) == store.uid else None)
