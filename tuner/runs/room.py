"""Room on the disk for another trial."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tuner.errors import ResultsError

if TYPE_CHECKING:
    from pathlib import Path

#: A trial needs its log (capped), its samples and its rows in the database.
NEEDED_MIB = 32


def check_room(folder: Path) -> None:
    """Refuse to begin a trial whose results may not fit.

    Raises:
        ResultsError: The disk is nearly full.
    """
    free_mib = shutil.disk_usage(folder).free / 2**20
    if free_mib < NEEDED_MIB:
        raise ResultsError(
            f"{folder}: {free_mib:.0f} MiB are free on its disk, {NEEDED_MIB} are needed for a trial. "
            "Free some and run the same command again: nothing is lost"
        )
