"""Where studies are looked for: in folders of this machine, or in a storage that several machines share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.study.location import Location


@dataclass(frozen=True, slots=True)
class Places:
    """What the user says of where studies are.

    A storage that is named as an option is the only place. One that only the environment names is asked for what
    is not found on this machine.
    """

    results: Path
    storage: str | None = field(default=None, repr=False)
    storage_file: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_shared_alone(self) -> bool:
        """Whether folders of this machine are not looked at."""
        return self.storage is not None or self.storage_file is not None

    def location(self) -> Location | None:
        """The storage; None where none is named.

        Raises:
            UsageError: It is none that can be used.
        """
        from tuner.study.location import location_of  # noqa: PLC0415 - Optuna takes a second

        return location_of(self.storage, self.storage_file, self.environ)

    def file_of(self, named: str) -> Path | None:
        """The best.json that is named, where it is one and not a study."""
        path = Path(named)
        is_meant = not self.is_shared_alone or path.suffix == ".json"
        return path if is_meant and path.is_file() else None
