"""Which layers keep their experts where: what `--override-tensor` of a candidate is generated from.

An entry is `DEVICE:FIRST-LAST`, a run of layers and the engine's name of where their experts lie (`CPU` for the
host's memory): `("CPU:0-4", "CPU:24-30")`. Nothing else can be said, so that what is launched can be predicted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

CPU = "CPU"
"""The engine's name of the host's memory."""

#: The tensors of a layer's experts, as `-cmoe` and `-ncmoe` find them (common.h of build 11434).
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
#: The feed-forward part of a dense layer, as `-ncffn` finds it.
DENSE = r"\.ffn_(up|down|gate)\."

_ENTRY = re.compile(r"(?P<place>[A-Za-z][A-Za-z0-9]*):(?P<first>\d{1,4})-(?P<last>\d{1,4})")
_WRITTEN = re.compile(
    r"blk\\\.\((?P<layers>\d+(?:\|\d+)*)\)" + re.escape(EXPERTS) + r"=(?P<place>[A-Za-z][A-Za-z0-9]*)"
)


@dataclass(frozen=True, slots=True)
class ExpertRun:
    """Layers that follow each other and keep their experts in one place."""

    place: str
    """A device as the engine names its memory, or `CPU`."""
    first: int
    last: int
    """That layer too."""

    @classmethod
    def read(cls, entry: str) -> Self | None:
        """The run of an entry; None where it is none."""
        found = _ENTRY.fullmatch(entry)
        if found is None or int(found["first"]) > int(found["last"]):
            return None
        return cls(found["place"], int(found["first"]), int(found["last"]))

    @property
    def entry(self) -> str:
        """As it stands in a candidate."""
        return f"{self.place}:{self.first}-{self.last}"

    @property
    def pattern(self) -> str:
        """A regular expression of the names of its tensors; without a comma, at which the engine would cut it."""
        return rf"blk\.({'|'.join(map(str, range(self.first, self.last + 1)))}){EXPERTS}"


def expert_runs(layers: Iterable[int], place: str = CPU) -> tuple[ExpertRun, ...]:
    """The runs that some layers fall into."""
    runs: list[ExpertRun] = []
    for layer in sorted(set(layers)):
        if runs and runs[-1].last == layer - 1:
            runs[-1] = ExpertRun(place, runs[-1].first, layer)
        else:
            runs.append(ExpertRun(place, layer, layer))
    return tuple(runs)


def override_text(entries: Iterable[str]) -> str:
    """The value of `--override-tensor` for a candidate's entries."""
    runs = [run for entry in entries if (run := ExpertRun.read(entry)) is not None]
    return ",".join(f"{run.pattern}={run.place}" for run in runs)


def override_entries(text: str) -> tuple[str, ...] | None:
    """The entries that a value was written from; None for one that is not of ours."""
    entries = []
    for part in text.split(","):
        found = _WRITTEN.fullmatch(part)
        if found is None:
            return None
        layers = [int(layer) for layer in found["layers"].split("|")]
        run = ExpertRun(found["place"], layers[0], layers[-1])
        if f"{run.pattern}={run.place}" != part:
            return None
        entries.append(run.entry)
    return tuple(entries)
