"""What the engine's own tool says a launch needs, and what that makes of our arithmetic.

`llama-fit-params -fitp on` builds the graph without loading the model. It overstates the compute buffer of the
device with the output matrix, knows nothing of tensor mode, drafts and the process itself, and takes 0.5 to
2.5 seconds. So it corrects the arithmetic once for a model, and is asked again where a launch is on the edge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tuner.core.memory.need import Prediction
    from tuner.core.memory.query import MemoryQuery

#: Whole MiB are what the tool prints: a smaller difference says nothing.
_ROUNDED_MIB = 3.0


@dataclass(frozen=True, slots=True)
class FitRow:
    """One device's row, in whole MiB, rounded down."""

    device: str
    """The engine's name, or `Host`."""
    model_mib: int
    context_mib: int
    """KV cache and recurrent state."""
    compute_mib: int


class Oracle(Protocol):
    """The engine's own tool."""

    def ask(self, query: MemoryQuery, split: tuple[int, ...]) -> tuple[FitRow, ...] | None:
        """What a launch needs of each device and of the host; None where it cannot say."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Factors between our arithmetic and what the engine says of a model; 1 where both agree."""

    weights: float = 1.0
    cache: float = 1.0
    compute: float = 1.0


def scale_of(prediction: Prediction, rows: tuple[FitRow, ...]) -> Scale:
    """The factors that make a prediction agree with the tool's rows for the same launch."""
    said = {row.device: row for row in rows}
    needs = {name: need for name, need in prediction.devices.items() if name in said}
    if not needs:
        return Scale()
    inner = [name for name, need in needs.items() if need.compute > 0][:-1]  # not the one with the output
    return Scale(
        weights=_factor(
            sum(said[name].model_mib for name in needs), sum(need.weights for need in needs.values())
        ),
        cache=_factor(
            sum(said[name].context_mib for name in needs),
            sum(need.kv + need.recurrent for need in needs.values()),
        ),
        compute=_factor(
            sum(said[name].compute_mib for name in inner), sum(needs[name].compute for name in inner)
        ),
    )


def sharpened(prediction: Prediction, rows: tuple[FitRow, ...]) -> Prediction:
    """A prediction with what the tool says of the same launch in its place."""
    said = {row.device: row for row in rows}
    users = [name for name, need in prediction.devices.items() if need.compute > 0]
    needs = {}
    for name, need in prediction.devices.items():
        row = said.get(name)
        if row is None:
            needs[name] = need
            continue
        has_output = bool(users) and name == users[-1]
        needs[name] = replace(
            need,
            weights=row.model_mib,
            kv=max(row.context_mib - need.recurrent, 0.0),
            compute=min(row.compute_mib, need.compute) if has_output else row.compute_mib,
        )
    host = said.get("Host")
    return replace(
        prediction,
        devices=MappingProxyType(needs),
        host_mib=prediction.host_mib if host is None else host.model_mib + host.context_mib,
        host_compute_mib=prediction.host_compute_mib if host is None else host.compute_mib,
        source="llama-fit-params",
    )


def _factor(said: float, reckoned: float) -> float:
    if said <= 0 or reckoned <= 0 or abs(said - reckoned) <= _ROUNDED_MIB:
        return 1.0
    return said / reckoned
