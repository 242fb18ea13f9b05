"""Everything that a report is made of, as it was read from a study."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.memory.words import NotLaunched
    from tuner.core.telemetry import GpuReading
    from tuner.core.trial import TrialRecord
    from tuner.report.view.slots import BuildPoint
    from tuner.report.view.walls import WallsOfModes
    from tuner.search.confirmation.state import Confirmation
    from tuner.study import Part


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """One study, read once."""

    records: tuple[TrialRecord, ...]
    facts: Mapping[str, Any]
    """The study's: engine, devices, model, workload, memory."""
    confirmation: Confirmation | None = None
    not_launched: tuple[NotLaunched, ...] = ()
    clock: Mapping[int, tuple[float, float | None]] = field(default_factory=lambda: MappingProxyType({}))
    """When each trial began and ended, in seconds since 1970."""
    importances: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """How much each parameter decides, by Optuna; empty where too little was measured."""
    needs: Mapping[int, Mapping[str, Mapping[str, float]]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """What was predicted before each launch: by trial and device, MiB by part as `Prediction.to_json` has them."""
    log_tails: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    """The end of what each trial's server printed."""
    series: tuple[GpuReading, ...] = ()
    """What the driver said of each card during the winner's last launch, whole."""
    walls: WallsOfModes | None = None
    """Where the cards are full; None where the model's header cannot be read any more."""
    ladder: Mapping[str, Any] | None = None
    """ladder.json of the ladder that the study is a rung of."""
    engines: Mapping[str, Any] | None = None
    """table.json of the study over several engines and files that this is one of."""
    builds: tuple[BuildPoint, ...] = ()
    """What was best on this rig with which build, the oldest first; fewer than two say nothing."""
    running: bool = False
    """Whether a run goes on with it at the moment."""
    workers: tuple[Part, ...] = ()
    """Who takes part in a study of several machines; empty for one of a single machine."""

    @property
    def device_names(self) -> dict[str, str]:
        """What people call a device, by the engine's name of it."""
        return {one["name"]: f"{one['name']} ({one['description']})" for one in self.facts["devices"]}
