"""Why a run, or a part of it, ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ending:
    """Why it ended."""

    why: str
    interrupted: bool = False
