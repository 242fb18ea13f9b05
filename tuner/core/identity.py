"""What a study was made with; numbers of two studies are comparable where all of it is equal."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a study depends on."""

    digest: str
    """Equal for equal things only."""
    label: str
    """What people call it."""


@dataclass(frozen=True, slots=True)
class StudyIdentity:
    """Everything that a study depends on, by name: model, engine, devices, space, workload, flags."""

    parts: Mapping[str, Part]

    def differences(self, other: StudyIdentity) -> list[str]:
        """A sentence for each part in which another identity differs from this one."""
        sentences = []
        for name, part in self.parts.items():
            theirs = other.parts.get(name)
            if theirs is None or theirs.digest != part.digest:
                label = "nothing" if theirs is None else theirs.label
                sentences.append(f"{name}: made with {part.label}, now {label}")
        return sentences

    def to_json(self) -> dict[str, dict[str, str]]:
        """Plain JSON values."""
        return {name: {"digest": part.digest, "label": part.label} for name, part in self.parts.items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Mapping[str, str]]) -> StudyIdentity:
        """The inverse of `to_json`."""
        return cls({name: Part(part["digest"], part["label"]) for name, part in document.items()})


def digest_of(value: object) -> str:
    """SHA-256 over a value's canonical JSON form; what is not JSON goes by its `repr`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()
