"""What a strategy is given: the default search space on a played rig, and the rig as the tuner would see it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.assignment.splits import Splits
from tuner.core.restriction import Abilities, restrict
from tuner.core.space_document import Cores, parse_space
from tuner.search.coordinates import BoundSpace

if TYPE_CHECKING:
    from tuner.core.rig import Device
    from tuner.simulate.launcher import SimulatedRig

_SPACES = Path(__file__).parents[2] / "search_spaces"


@dataclass(frozen=True, slots=True)
class Task:
    """One rig to tune; nothing in it tells how fast anything is."""

    bound: BoundSpace
    """Its `splits.model` is the model's header."""
    devices: tuple[Device, ...]
    """With the memory that is free before the first launch."""
    host_room_mib: float = inf
    """What can be had of the host's memory."""


def task_of(rig: SimulatedRig, space: Path | None = None) -> Task:
    """The task that a played rig poses: the space without what engine, model and rig cannot do.

    Args:
        rig: It.
        space: Its file; None for what a run takes by itself, which is another where the model does not fit.
    """
    played, model = rig.rig, rig.model
    if space is None:
        too_large = sum(device.room_mib for device in played.devices) < model.offloaded_bytes / 2**20
        space = _SPACES / ("offload.toml" if too_large and played.model.experts else "dual-gpu.toml")
    abilities = Abilities(
        can_write=lambda _name: True,
        can_take=lambda _name, _value: True,
        architecture=model.architecture,
        allows_tensor_split=model.allows_tensor_split,
        has_mtp_layers=model.n_mtp_layers > 0,
        has_draft_model=False,
        device_names=played.names,
        user_options=frozenset(),
        allow_p2p=False,
    )
    cores = Cores(played.host.cores, 2 * played.host.cores)
    whole = parse_space(space.stem, tomllib.loads(space.read_text(encoding="utf-8")), cores)
    left, _ = restrict(whole, abilities)
    bound = BoundSpace(left, played.names, Splits(model), {"ctx-size": played.workload.ctx})
    return Task(bound, played.as_seen().devices, played.host.ram_mib)
