"""A ladder of contexts on played rigs: each rung as a run would tune it, the largest found by prediction."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.bench.strategies import Trials
from tests.bench.task import Task, task_of
from tests.support.played_rigs import simulated
from tuner.core.cards import decode_bandwidth
from tuner.core.ladder import Contexts, Rung
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.memory.observe import observations_of
from tuner.core.memory.predict import Predictor
from tuner.core.outcome import Kind
from tuner.core.trial import TrialRecord, best_of
from tuner.runs.ladder import Climb, Ladder, RungEnd, RungOrder
from tuner.search.largest import largest_context, most_modest
from tuner.search.memory_gate import MemoryGate
from tuner.search.queue import refusal
from tuner.search.strategy import Search
from tuner.simulate.launcher import SimulatedRig
from tuner.study import TpeSampler

if TYPE_CHECKING:
    from tuner.core.candidate import Candidate
    from tuner.core.memory.learned import Observation
    from tuner.search.coordinates import BoundSpace

SOURCE = "played"


@dataclass
class PlayedLadder:
    """The rungs of one rig; what launches teach about memory is kept from rung to rung."""

    name: str
    launches: int
    known: list[Observation] = field(default_factory=list)
    best_tok_s: dict[int, float] = field(default_factory=dict)
    first_seen: dict[int, int] = field(default_factory=dict)
    """Launches until the rung's winner was made, by context."""

    def __post_init__(self) -> None:
        rig = simulated(self.name).rig
        self.rig = SimulatedRig(rig)
        self.task = task_of(self.rig)

    def at(self, context: int) -> BoundSpace:
        return replace(self.task.bound, imposed={**self.task.bound.imposed, "ctx-size": context})

    def gate(self) -> MemoryGate:
        devices = self.task.devices
        predictor = Predictor(self.task.bound.splits, devices)
        gate = MemoryGate(predictor, devices, reserve_mib=dict.fromkeys(self.rig.rig.names, 0), source=SOURCE)
        gate.begin_with(self.known)
        gate.learn(())
        return gate

    def make(self, order: RungOrder) -> RungEnd:
        bound, gate = self.at(order.context), self.gate()
        rng = random.Random(f"{self.name} {order.context}")  # noqa: S311 - no secret
        rig = SimulatedRig(replace(self.rig.rig, workload=replace(self.rig.rig.workload, ctx=order.context)))
        search = Search(
            bound,
            gate,
            bandwidths={device.name: decode_bandwidth(device.description) for device in self.task.devices},
            before=order.before,
        )
        trials = Trials(Task(bound, self.task.devices))
        records: list[TrialRecord] = []
        while len(records) < self.launches:
            gate.learn(records)
            candidate = None
            if records:
                start = next(
                    (
                        one
                        for _, one in order.starts
                        if refusal(bound, one, records) is None and gate.turned_away(one) is None
                    ),
                    None,
                )
                found = search.propose(
                    records,
                    lambda one: refusal(bound, one, records) is not None,
                    lambda one: gate.excess(one) is not None,
                    lambda: TpeSampler(trials.of(records), seed=1),
                )
                if start is None and found is None:
                    break
                candidate = start if start is not None else found.candidate if found is not None else None
            result = rig.launch(candidate, rng)
            reference = ENGINE_DEFAULT if candidate is None else None
            records.append(
                TrialRecord(len(records), candidate, reference, ("llama-server",), {}, result, 10.0)
            )
        self.known += observations_of(
            records, Predictor(bound.splits, self.task.devices), self.task.devices, SOURCE
        )
        estimates = search.estimates(records)
        best = best_of([replace(one, estimate_tok_s=estimates.get(one.number)) for one in records])
        lost = sum(one.outcome is not None and one.outcome.kind is Kind.OUT_OF_MEMORY for one in records)
        winner = None if best is None or best.candidate is None else best.candidate
        if winner is not None:
            self.best_tok_s[order.context] = (rig.true_rate(winner) or 0.0) / rig.best(bound)[1]
        rung = Rung(
            order.context,
            order.is_max,
            None if winner is None else winner.summary(),
            None if winner is None else rig.true_rate(winner),
            None,
            len(records),
            lost,
            records[0].score,
            None,
            (),
            None,
        )
        return RungEnd(rung, tuple(records), winner, used_s=10.0 * len(records))

    def largest(self) -> int | None:
        gate = self.gate()
        return largest_context(
            self.at,
            lambda one: gate.predictor.predict(one.options),
            gate.room_mib,
            most_tokens=self.rig.rig.model.ctx_train,
        )

    def modest(self, context: int) -> Candidate | None:
        gate = self.gate()
        predict = gate.predictor.predict
        return most_modest(self.at(context), lambda one: predict(one.options), gate.room_mib)[0]

    def climb(self, *tokens: int) -> Climb:
        return Ladder(
            Contexts(tokens, with_max=True),
            budget_s=None,
            make=self.make,
            largest=self.largest,
            modest=self.modest,
            publish=lambda _climb: None,
            note=lambda _text: None,
        ).run()


@pytest.mark.parametrize("name", ["rtx5080-3090", "rtx4070s-3060-8b", "rtx3090-3060-riser"])
def test_a_ladder_finds_the_best_of_each_context_and_the_wall_with_one_loss_a_rung_at_most(name: str) -> None:
    played = PlayedLadder(name, launches=7)
    climb = played.climb(16_384, 65_536)
    contexts = [rung.context for rung in climb.rungs]
    kept = [rung.context for rung in climb.rungs if rung.score_tok_s is not None]
    assert kept == sorted(set(kept))
    assert len(contexts) >= 2
    assert all(rung.out_of_memory <= 1 for rung in climb.rungs), [r.out_of_memory for r in climb.rungs]
    top = climb.rungs[-1]
    assert top.score_tok_s is not None
    assert len(climb.tried_as_max) <= 2
    # the search of a rung knows what those below have shown
    assert all(part >= 0.97 for part in played.best_tok_s.values()), played.best_tok_s
    speeds = [rung.score_tok_s for rung in climb.rungs if rung.score_tok_s is not None]
    assert all(after <= before * 1.05 for before, after in itertools.pairwise(speeds))
