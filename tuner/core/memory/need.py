"""What a launch needs of each device, part by part, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import erf, sqrt
from typing import TYPE_CHECKING, Any

from tuner.core.outcome import Stage

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """MiB that one device will be asked for, in the order in which the engine asks."""

    weights: float = 0.0
    kv: float = 0.0
    recurrent: float = 0.0
    compute: float = 0.0
    draft: float = 0.0
    """What drafts take: their own weights, cache and buffers."""
    projector: float = 0.0
    """A multimodal projector (`--mmproj`)."""
    runtime: float = 0.0
    """What no line of the engine names: the process itself, libraries, reductions, growth under requests."""
    sigma: float = 0.0
    """Standard deviation of the sum."""

    @property
    def buffers(self) -> float:
        """What the engine's lines name."""
        return self.weights + self.kv + self.recurrent + self.compute + self.draft + self.projector

    @property
    def total(self) -> float:
        """Everything."""
        return self.buffers + self.runtime

    @property
    def stages(self) -> tuple[tuple[Stage, float], ...]:
        """Load steps in order, each with what it adds."""
        return (
            (Stage.WEIGHTS, self.weights),
            (Stage.KV, self.kv),
            (Stage.RECURRENT, self.recurrent),
            (Stage.COMPUTE, self.compute),
            (Stage.DRAFT, self.draft + self.projector),
            (Stage.RUNTIME, self.runtime),
        )

    def chance_to_fit(self, room_mib: float) -> float:
        """The probability that it fits into so much memory, from 0 to 1."""
        margin = room_mib - self.total
        if self.sigma <= 0:
            return 1.0 if margin >= 0 else 0.0
        return (1 + erf(margin / self.sigma / sqrt(2))) / 2

    def breaks_at(self, room_mib: float) -> Stage | None:
        """The load step at which the memory runs out; None where it does not."""
        asked = 0.0
        for stage, size in self.stages:
            asked += size
            if asked > room_mib:
                return stage
        return None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a launch needs."""

    devices: Mapping[str, DeviceNeed]
    """By the engine's name of the device, in the split's order."""
    owners: tuple[int | None, ...]
    """Layer mode: which device of those holds each unit, None for the host. Empty in tensor mode."""
    host_mib: float
    """Weights and caches on the host."""
    source: str
    """Who worked it out: `tuner`, or `llama-fit-params` where the engine's own tool did."""
    host_compute_mib: float = 0.0
    """The engine's buffer on the host; where a card can have it so it is pinned, and the same memory."""

    @property
    def host_total_mib(self) -> float:
        """All that is asked of the host's memory."""
        return self.host_mib + self.host_compute_mib

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, MiB in whole tenths."""
        rows = {
            name: {part: round(value, 1) for part, value in {**asdict(need), "total": need.total}.items()}
            for name, need in self.devices.items()
        }
        return {"source": self.source, "host": round(self.host_mib, 1), "devices": rows}


@dataclass(frozen=True, slots=True)
class Excess:
    """A device that a launch asks for more than it has."""

    device: str
    need: DeviceNeed
    room_mib: float
    """What may be used of it."""
    chance: float
    """The probability that it fits all the same."""

    @property
    def over_mib(self) -> float:
        """How much too much; below 0 where it is expected to fit."""
        return self.need.total - self.room_mib

    @property
    def stage(self) -> Stage | None:
        """The load step at which it runs out; None where it is expected to fit."""
        return self.need.breaks_at(self.room_mib)


def tightest(prediction: Prediction, room_mib: Mapping[str, float]) -> Excess | None:
    """The device that is least likely to have room; None where nothing is asked of any."""
    rows = [
        Excess(name, need, room_mib[name], need.chance_to_fit(room_mib[name]))
        for name, need in prediction.devices.items()
        if name in room_mib
    ]
    return min(rows, key=lambda row: (row.chance, -row.over_mib)) if rows else None


def chance_to_fit(prediction: Prediction, room_mib: Mapping[str, float]) -> float:
    """The probability that every device has room, from 0 to 1."""
    chance = 1.0
    for name, need in prediction.devices.items():
        if name in room_mib:
            chance *= need.chance_to_fit(room_mib[name])
    return chance
