"""Servers that a killed tuner left behind: found in its journal, and ended before anything else is done.

They hold the devices: a card's memory is theirs, and an RPC server answers nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.runs.trial_folder import TrialFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def end_orphans(study_folder: Path, end: Callable[[int, float, str], bool]) -> list[int]:
    """End the server of every trial that has no end on disk.

    The caller holds the study, so that no such trial is being run by somebody else.

    Args:
        study_folder: Of the study; it need not exist.
        end: Ends one by pid, start time and token, and says whether there was one.

    Returns:
        Numbers of the trials whose server still ran.
    """
    ended = []
    folders = [path for path in (study_folder / "trials").glob("*") if path.name.isdecimal()]
    for path in sorted(folders, key=lambda path: int(path.name)):
        folder = TrialFolder(path)
        process = folder.process()
        if process is None or folder.result() is not None:
            continue
        if end(process.pid, process.started_at, process.token):
            ended.append(int(path.name))
    return ended
