"""What was best when, kept with the rig: one JSON file a set of devices, beside what launches have taught of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.history import Entry, with_entry
from tuner.errors import RigError
from tuner.rig.memory_facts import default_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMAT = 1
_PREFIX = "history-"


@dataclass(frozen=True, slots=True)
class RigHistory:
    """The history of one rig."""

    devices: tuple[str, ...]
    """What the engine called them, and what they are."""
    entries: tuple[Entry, ...]
    """The oldest first."""


class History:
    """The file of one rig.

    Args:
        identity: What identifies its devices: `Rig.identity`.
        folder: Where such files are; the user's data folder if None.
    """

    def __init__(self, identity: tuple[str, ...], folder: Path | None = None) -> None:
        name = hashlib.sha256("\n".join(sorted(identity)).encode()).hexdigest()[:16]
        self.path = (default_folder() if folder is None else folder) / f"{_PREFIX}{name}.json"

    def load(self) -> RigHistory:
        """What is known; nothing where there is no file, or one that cannot be read."""
        return _read(self.path) or RigHistory((), ())

    def add(self, entry: Entry, devices: Sequence[str]) -> None:
        """Keep one more entry; one of the same study makes way for it.

        Raises:
            RigError: The file cannot be written.
        """
        entries = with_entry(self.load().entries, entry)
        document = {
            "format": _FORMAT,
            "devices": list(devices),
            "entries": [one.to_json() for one in entries],
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{_PREFIX}")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    json.dump(document, stream, indent=1, ensure_ascii=False)
                    stream.write("\n")
                Path(name).replace(self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            raise RigError(
                f"{self.path} cannot be written: {error.strerror or error}; give another folder with --facts"
            ) from error


def histories(folder: Path | None = None) -> list[RigHistory]:
    """Those of all rigs that a folder knows.

    Args:
        folder: Where such files are; the user's data folder if None.
    """
    place = default_folder() if folder is None else folder
    found = [_read(path) for path in sorted(place.glob(f"{_PREFIX}*.json"))] if place.is_dir() else []
    return [one for one in found if one is not None and one.entries]


def _read(path: Path) -> RigHistory | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            return None
        entries = tuple(Entry.from_json(row) for row in document["entries"])
        return RigHistory(tuple(document["devices"]), entries)
    except (OSError, ValueError, KeyError, TypeError):
        return None
