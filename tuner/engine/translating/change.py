"""What is different about a translated command, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.engine.translating.said import Said


class ChangeKind(StrEnum):
    """What became of some words."""

    RENAMED = "renamed"
    """Other words, the same meaning."""
    PINNED = "pinned"
    """A default that is another one now, set to what it was."""
    LEFT_OUT = "left out"
    """Words that did nothing, or that do nothing any more."""
    LOST = "cannot be carried over"
    """Nothing does what they did; where a part of them is left, it is what is written."""
    DIFFERS = "differs"
    """Words that stay, or that were never there, and do something else now; no words do what they did."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between a command and its translation."""

    kind: ChangeKind
    before: str
    """The words as they were; empty for what was not said."""
    after: str
    """The words as they are now; empty where nothing is written."""
    why: str

    def __str__(self) -> str:
        """In one line: `--draft-max 16 -> --spec-draft-n-max 16: why`."""
        words = f"{self.before} -> {self.after}" if self.before and self.after else self.before or self.after
        lost = "cannot be carried over: " if self.kind is ChangeKind.LOST else ""
        return f"{lost}{words}: {self.why}"


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of the translation makes of a command."""

    said: tuple[Said, ...]
    changes: tuple[Change, ...] = ()

    @classmethod
    def joined(cls, steps: Sequence[Step]) -> Step:
        """Several steps on parts of a command as one on the whole."""
        return cls(
            tuple(one for step in steps for one in step.said),
            tuple(change for step in steps for change in step.changes),
        )
