"""The largest context that fits, by prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.bench.task import task_of
from tests.support.played_rigs import simulated, small
from tuner.core.memory.predict import Predictor
from tuner.search.largest import STEP_TOKENS, largest_context, most_modest
from tuner.simulate.setup import setup_of

if TYPE_CHECKING:
    from tuner.search.coordinates import BoundSpace
    from tuner.simulate.launcher import SimulatedRig

RIGS = ("rtx5080-3090", "rtx4070s-3060-8b", "rtx3090-3060-riser")


def largest(rig: SimulatedRig, *, most_tokens: int = 262_144, spare_mib: float = 0.0) -> int | None:
    task = task_of(rig)
    predictor = Predictor(task.bound.splits, task.devices)

    def bound_at(context: int) -> BoundSpace:
        return replace(task.bound, imposed={**task.bound.imposed, "ctx-size": context})

    room = {device.name: device.free_mib - spare_mib for device in task.devices}
    return largest_context(
        bound_at, lambda one: predictor.predict(one.options), room, most_tokens=most_tokens
    )


@pytest.mark.parametrize("name", RIGS)
def test_the_largest_fits_when_it_is_launched_and_hardly_more_would(name: str) -> None:
    rig = simulated(name)
    found = largest(rig)
    assert found is not None
    assert found % STEP_TOKENS == 0

    def fits(context: int) -> bool:
        task = task_of(rig)
        bound = replace(task.bound, imposed={**task.bound.imposed, "ctx-size": context})
        predictor = Predictor(bound.splits, task.devices)
        room = {device.name: float(device.free_mib) for device in task.devices}
        candidate, _ = most_modest(bound, lambda one: predictor.predict(one.options), room)
        assert candidate is not None
        return rig.need(setup_of(rig.rig, candidate.options)).fits

    assert fits(found)
    # what no line names is guessed with a wide margin before the first launch
    assert found == 262_144 or not fits(min(round(found * 1.6), 400_000))


def test_less_room_is_less_context() -> None:
    rig = simulated("rtx5080-3090")
    contexts = [largest(rig, spare_mib=spare) or 0 for spare in (0, 1000, 2000, 4000)]
    assert contexts == sorted(contexts, reverse=True)
    assert contexts[0] > contexts[-1]


def test_no_more_than_the_model_was_trained_for() -> None:
    assert largest(small(), most_tokens=32_768) == 32_768


def test_where_nothing_fits_there_is_none() -> None:
    assert largest(small(), spare_mib=14_900) is None
