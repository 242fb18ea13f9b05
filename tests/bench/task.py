"""What a strategy is given: the default search space on a played rig, and the rig as the tuner would see it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.assignment.splits import Splits
from tuner.core.restriction import Abilities, restrict
from tuner.core.space_document import parse_space
from tuner.search.coordinates import BoundSpace

if TYPE_CHECKING:
    from tuner.core.rig import Device
    from tuner.simulate.launcher import SimulatedRig

SPACE = Path(__file__).parents[2] / "search_spaces" / "dual-gpu.toml"


@dataclass(frozen=True, slots=True)
class Task:
    """One rig to tune; nothing in it tells how fast anything is."""

    bound: BoundSpace
    """Its `splits.model` is the model's header."""
    devices: tuple[Device, ...]
    """With the memory that is free before the first launch."""


def task_of(rig: SimulatedRig, space: Path = SPACE) -> Task:
    """The task that a played rig poses: the space without what engine, model and rig cannot do."""
    played, model = rig.rig, rig.model
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
    whole = parse_space(space.stem, tomllib.loads(space.read_text(encoding="utf-8")))
    left, _ = restrict(whole, abilities)
    bound = BoundSpace(left, played.names, Splits(model), {"ctx-size": played.workload.ctx})
    return Task(bound, played.as_seen().devices)
