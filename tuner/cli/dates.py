"""The date as documents have it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """This moment, ISO 8601 with the offset of this machine's zone."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")
