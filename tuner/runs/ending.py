"""Why a run, or a part of it, ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ending:
    """Why it ended."""

    why: str
    interrupted: bool = False
    is_complete: bool = False
    """Whether a search has nothing left that is worth its time, however much of that there is."""
