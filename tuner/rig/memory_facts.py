"""What launches have taught about a rig's memory, kept with the rig for the next study.

One JSON file a set of devices, in the user's data folder unless another is given.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from tuner.core.memory.learned import Observation, kept
from tuner.errors import RigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMAT = 1


def default_folder() -> Path:
    """Where a user's rigs are remembered."""
    return Path(platformdirs.user_data_dir("split-ratio-tuner")) / "rigs"


class MemoryFacts:
    """The file of one rig.

    Args:
        identity: What identifies its devices: `Rig.identity`.
        folder: Where such files are; `default_folder()` if None.
    """

    def __init__(self, identity: tuple[str, ...], folder: Path | None = None) -> None:
        name = hashlib.sha256("\n".join(sorted(identity)).encode()).hexdigest()[:16]
        self.path = (default_folder() if folder is None else folder) / f"memory-{name}.json"

    def load(self) -> tuple[Observation, ...]:
        """What is known, the oldest first; nothing where there is no file, or one that cannot be read."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            if document["format"] != _FORMAT:
                return ()
            return tuple(Observation.from_json(row) for row in document["observations"])
        except (OSError, ValueError, KeyError, TypeError):
            return ()  # it is learned again: less is lost than by refusing to start

    def add(self, observations: Sequence[Observation]) -> None:
        """Keep further observations, the newest last; those that are known already are not doubled.

        Raises:
            RigError: The file cannot be written.
        """
        known = self.load()
        new = [one for one in observations if one not in known]
        if not new:
            return
        rows = [one.to_json() for one in kept((*known, *new))]
        text = json.dumps({"format": _FORMAT, "observations": rows}, indent=1) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".memory-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    stream.write(text)
                Path(name).replace(self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            raise RigError(
                f"{self.path} cannot be written: {error.strerror or error}; give another folder with --facts"
            ) from error
