"""Searches with other goals than plain generation, on played rigs whose classes differ."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.bench.strategies import TunerSearch
from tests.bench.task import task_of
from tests.support.played_rigs import simulated, small
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.objective import Goal, Objective
from tuner.core.trial import TrialRecord
from tuner.simulate.launcher import SimulatedRig

if TYPE_CHECKING:
    from tuner.core.candidate import Candidate

#: Drafts are right nine times of ten in code, and once in ten in prose.
UNLIKE = {
    "accept": {"code": [0.92, 0.86, 0.80, 0.75, 0.7, 0.65, 0.6, 0.55], "prose": [0.1, 0.01], "default": [0.5]}
}


def search(rig: SimulatedRig, goal: Goal, launches: int) -> list[TrialRecord]:
    """What a search with a goal comes to, the engine's default first."""
    rng, strategy = random.Random("a seed"), TunerSearch(task_of(rig), seed=1)  # noqa: S311 - no secret
    records: list[TrialRecord] = []
    candidate: Candidate | None = None
    while len(records) < launches:
        if records:
            candidate = strategy.propose(tuple(records))
        if records and candidate is None:
            break
        result = rig.launch(candidate, rng)
        reference = None if candidate is not None else ENGINE_DEFAULT
        records.append(
            TrialRecord(len(records), candidate, reference, ("llama-server",), {}, result, 1.0, goal=goal)
        )
    best = strategy.exported(records)
    assert best is not None
    return [best, *records]


def turn_s(record: TrialRecord) -> float:
    assert record.rates is not None
    assert record.rates.turn_s is not None
    return record.rates.turn_s


@pytest.mark.parametrize(("name", "drafts"), [("code", True), ("prose", False)])
def test_the_class_that_counts_decides_how_deep_drafts_are(name: str, drafts: bool) -> None:  # noqa: FBT001
    rig = small(model=UNLIKE)
    best = search(rig, Goal(weights={name: 1.0}), 20)[0].candidate
    assert best is not None
    alone = SimulatedRig(replace(rig.rig, workload=replace(rig.rig.workload, classes=(name,))))
    rate, possible = alone.true_rate(best), alone.best(task_of(rig).bound)[1]
    assert rate is not None
    assert rate >= 0.97 * possible
    assert (best.get("spec-type") == "draft-mtp") == drafts
    assert (best.draft_depth >= 3) == drafts


def test_where_a_turn_counts_the_ubatch_that_reads_prompts_fast_is_found() -> None:
    base = simulated("h200-pair").rig
    long = replace(base, workload=replace(base.workload, prompt_tokens=6000, max_tokens=64))
    rig = SimulatedRig(long)
    best, *records = search(rig, Goal(Objective.TURN), 25)
    generation, *_ = search(SimulatedRig(long), Goal(), 25)
    assert turn_s(best) < 0.97 * turn_s(generation)
    assert any(
        record.candidate is not None and record.candidate.get("ubatch-size") != 512 for record in records
    )
