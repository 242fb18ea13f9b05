"""What a command would do here, and what was asked about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.core.checkup.check import Check, Level

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.cli.build.checked_memory import DeviceRow
    from tuner.cli.build.checked_translation import CheckedTranslation
    from tuner.engine.probe import Engine


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of `tuner check`."""

    command: str
    server: Path | None
    settings: tuple[str, ...]
    """`NAME=VALUE` in the place of what the command has."""
    device_memory: str | None
    reserve: str | None
    facts: Path | None
    measured_with: Path | None = None
    """The engine of the study that it comes from."""
    source: str | None = None
    """The build that the command is for: a number, or the path of a llama-server; None to find out."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a command would do."""

    command: str
    """As it was checked, settings applied."""
    engine: Engine | None
    """The engine that it was checked with; None for the newest build whose help is known."""
    rows: tuple[DeviceRow, ...]
    """Empty where model or devices are not known."""
    host_holds: str | None
    host_mib: float | None
    source: str | None
    """Who worked the memory out: `tuner` or `llama-fit-params`."""
    checks: tuple[Check, ...]
    works: str | None
    """A command that fits, where this one does not."""
    works_by: str
    """What is different about it."""
    translation: CheckedTranslation | None = None
    """The command in the words of the engine, where it was written for another build; or, where the engine takes
    it as it stands, in those of the newest known build."""

    @property
    def found(self) -> bool:
        """Whether there is anything to say against it."""
        return any(check.level in {Level.PROBLEM, Level.WARNING} for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "command": self.command,
            "engine": None
            if self.engine is None
            else {"path": str(self.engine.path), "version": self.engine.version},
            "memory_source": self.source,
            "devices": [
                {
                    "name": row.name,
                    "description": row.description,
                    "holds": row.holds,
                    "weights_mib": round(row.need.weights, 1),
                    "kv_mib": round(row.need.kv, 1),
                    "recurrent_mib": round(row.need.recurrent, 1),
                    "compute_mib": round(row.need.compute, 1),
                    "draft_mib": round(row.need.draft + row.need.projector, 1),
                    "runtime_mib": round(row.need.runtime, 1),
                    "total_mib": round(row.need.total, 1),
                    "sigma_mib": round(row.need.sigma, 1),
                    "free_mib": row.room.free_mib,
                    "reserve_mib": row.room.reserve_mib,
                    "over_mib": round(row.need.total - row.room.usable_mib, 1),
                    "fits_probability": round(row.chance, 4),
                    "fails_at": row.fails_at,
                }
                for row in self.rows
            ],
            "host": None
            if self.host_mib is None
            else {"holds": self.host_holds, "total_mib": round(self.host_mib, 1)},
            "findings": [
                {
                    "topic": check.topic.value,
                    "subject": check.subject,
                    "level": check.level.value,
                    "text": check.text,
                    "remedy": check.remedy,
                }
                for check in self.checks
            ],
            "translation": None if self.translation is None else self.translation.to_json(),
            "works": None if self.works is None else {"command": self.works, "change": self.works_by},
        }
