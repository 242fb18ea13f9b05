"""What the driver is told to do to itself: one value, handed over in its environment."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "CHAOS_ORDER"


class Act(StrEnum):
    """What happens at a boundary."""

    KILL = "kill"
    """The tuner dies by SIGKILL."""
    FILL = "fill"
    """The disk of the results becomes full."""
    LIMIT = "limit"
    """No file may grow any more: what is left of a full disk where nothing can be mounted."""


@dataclass(frozen=True, slots=True)
class Order:
    """Do this at the n-th pass of that boundary."""

    act: Act
    boundary: str
    nth: int = 1
    folder: str = ""
    """Whose disk is filled."""

    def variables(self) -> dict[str, str]:
        """For the driver's environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self | None:
        """What a driver's environment says; None where it is to do nothing."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        said = json.loads(text)
        return cls(Act(said["act"]), said["boundary"], said["nth"], said["folder"])
