"""Two builds on played rigs, one of them slower by a factor: who is dropped when, and that it is never the faster."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tests.bench.strategies import Trials
from tests.bench.task import task_of
from tests.support.played_rigs import simulated
from tests.support.played_search import slower
from tuner.core.cards import decode_bandwidth
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.memory.predict import Predictor
from tuner.core.pareto import Worth
from tuner.core.trial import TrialRecord, best_of
from tuner.search.memory_gate import MemoryGate
from tuner.search.queue import refusal
from tuner.search.racing import LEAST_LAUNCHES, Out, Runner, losers, next_turn
from tuner.search.strategy import Search
from tuner.simulate.launcher import SimulatedRig
from tuner.study import TpeSampler

TURN, MOST = 4, 17
CONTEXT = 16_384


@dataclass
class PlayedBuild:
    """The search of one build on a rig, whose requests take `factor` times as long."""

    name: str
    rig_name: str
    factor: float
    seed: int
    records: list[TrialRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rig = SimulatedRig(simulated(self.rig_name).rig)
        self.task = task_of(self.rig)
        self.rng = random.Random(f"{self.name} {self.seed}")  # noqa: S311 - no secret
        devices = self.task.devices
        self.gate = MemoryGate(
            Predictor(self.task.bound.splits, devices), devices, reserve_mib={}, source=self.name
        )
        bandwidths = {device.name: decode_bandwidth(device.description) for device in devices}
        self.search = Search(self.task.bound, self.gate, bandwidths=bandwidths)
        self.trials = Trials(self.task)

    def go_on(self, launches: int) -> None:
        for _ in range(launches):
            self.gate.learn(self.records)
            candidate, reference = None, ENGINE_DEFAULT if not self.records else None
            if self.records:
                found = self.search.propose(
                    self.records,
                    lambda one: refusal(self.task.bound, one, self.records) is not None,
                    lambda one: self.gate.excess(one) is not None,
                    lambda: TpeSampler(self.trials.of(self.records), seed=self.seed),
                )
                assert found is not None
                candidate = found.candidate
            result = self.rig.launch(candidate, self.rng)
            record = TrialRecord(len(self.records), candidate, reference, ("s",), {}, result, 10.0)
            self.records.append(slower(record, self.factor) if result.samples else record)

    def runner(self) -> Runner:
        best = best_of(self.records)
        score = None if best is None else best.score
        made = sum(record.candidate is not None for record in self.records)
        return Runner(
            self.name, Worth(score, CONTEXT, 0.0, "Q8"), CONTEXT, 0.0, made, len(self.records), over=False
        )


def race(rig: str, factor: float, seed: int) -> tuple[list[Out], dict[str, int]]:
    """Who was out, and how many launches each had made, of two builds for 34 launches."""
    builds = {name: PlayedBuild(name, rig, of, seed) for name, of in (("slow", factor), ("fast", 1.0))}
    out: list[Out] = []
    while sum(len(one.records) for one in builds.values()) < 2 * MOST:
        runners = [one.runner() for one in builds.values() if one.name not in {row.name for row in out}]
        out += losers(runners)
        turn = next_turn(runners, {row.name for row in out})
        if turn is None:
            break
        build = builds[turn.name]
        build.go_on(TURN if build.records else 1 + LEAST_LAUNCHES)
    return out, {name: len(one.records) for name, one in builds.items()}


@pytest.mark.parametrize(("rig", "seed"), [("rtx4090-3060", 1), ("rtx3090-3060-8b", 2)])
def test_a_build_that_is_a_quarter_slower_is_out_soon_and_never_the_faster_one(rig: str, seed: int) -> None:
    out, launches = race(rig, 1 / 0.75, seed)
    assert [one.name for one in out] == ["slow"]
    assert launches["slow"] <= 1 + LEAST_LAUNCHES + 2 * TURN
    assert launches["fast"] >= 2 * MOST - launches["slow"]


@pytest.mark.parametrize(("rig", "seed"), [("rtx4090-3060", 2), ("rtx3090-3060-8b", 1)])
def test_two_builds_that_hardly_differ_both_stay(rig: str, seed: int) -> None:
    """What is left of 2 % is decided side by side, not by a race."""
    out, launches = race(rig, 1.02, seed)
    assert "fast" not in {one.name for one in out}
    assert not out or launches["slow"] > 1 + LEAST_LAUNCHES + TURN
