"""One line of a checkup, and what several of them come to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """It cannot be known here; the text says why."""


class Topic(StrEnum):
    """What a check is about, in the order in which people ask."""

    ENGINE = "engine"
    BUILD = "build"
    DRIVER = "driver"
    DEVICES = "devices"
    PCIE = "pcie"
    PEERS = "peers"
    POWER = "power"
    OTHERS = "others"
    MODEL = "model"
    FIT = "fit"
    MEMORY = "memory"
    DISK = "disk"
    SLEEP = "sleep"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a checkup."""

    topic: Topic
    subject: str
    """The device, pair or file that it is about; empty for the machine or engine as a whole."""
    level: Level
    text: str
    remedy: str = ""
    """What to do; empty where there is nothing to do."""


def in_order(checks: Iterable[Check]) -> list[Check]:
    """Checks by topic; within one they keep their order."""
    topics = list(Topic)
    return sorted(checks, key=lambda check: topics.index(check.topic))


def joined(checks: Sequence[Check]) -> list[Check]:
    """The same, where checks that say one thing of several subjects are one."""
    subjects: dict[tuple[Topic, Level, str, str], list[str]] = {}
    for check in checks:
        subjects.setdefault((check.topic, check.level, check.text, check.remedy), []).append(check.subject)
    return [
        Check(topic, ", ".join(filter(None, names)), level, text, remedy)
        for (topic, level, text, remedy), names in subjects.items()
    ]


def count(checks: Iterable[Check], level: Level) -> int:
    """How many are of that level."""
    return sum(check.level is level for check in checks)
