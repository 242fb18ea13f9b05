"""A small night of everything that `make chaos` does, and whether its harness would notice."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos.best_reader import BestReader
from tests.chaos.boundaries import EVERYWHERE
from tests.chaos.chaos import Plan, Result, wreak
from tests.chaos.fault_runs import FaultRun, Launched, apart, plan_faults
from tests.chaos.faults import Fault, all_faults
from tests.chaos.full_disk import Filled
from tests.chaos.kills import plan_kills
from tests.chaos.orders import VARIABLE, Act, Order
from tuner.core.outcome import Kind

if TYPE_CHECKING:
    from pathlib import Path


def dice(seed: int = 1) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a test has to do the same every time


def test_small_night_is_survived(tmp_path: Path) -> None:
    plan = Plan(
        seed=3,
        launches=6,
        kills=8,
        kills_a_study=4,
        every_fault=False,
        endings=(),
        fillings=("before result",),
    )
    result = wreak(tmp_path, plan)
    assert result.violations == []
    assert sum(len(run.launches) for run in result.faults) >= plan.launches
    assert sum(row.kills for row in result.kills.values()) == plan.kills
    assert result.disk.fillings == 1
    lines = list(result.lines())
    assert any(line.startswith("total ") for line in lines)


# --- what is planned


def test_every_fault_is_met_and_launches_are_as_many_as_asked_for() -> None:
    for seed in range(20):
        names = {fault.name for fault in all_faults(dice(seed))}
        planned = plan_faults(150, dice(seed))
        assert {fault.name for fault in planned} >= names
        assert sum(len(fault.ends) for fault in planned) >= 150
        few = plan_faults(6, dice(seed), every=False)
        assert 6 <= sum(len(fault.ends) for fault in few) <= 8


def test_no_two_faults_that_strain_the_rig_follow_each_other() -> None:
    for seed in range(20):
        planned = plan_faults(60, dice(seed))
        assert not any(one.strains and next_one.strains for one, next_one in pairwise(planned))
        again = apart(planned)
        assert sorted(fault.name for fault in again) == sorted(fault.name for fault in planned)


def test_kills_are_spread_over_all_boundaries() -> None:
    kills = plan_kills(3 * len(EVERYWHERE), dice())
    assert {boundary.name for boundary in EVERYWHERE} == {kill.boundary.name for kill in kills}
    assert all(1 <= kill.nth <= 2 * kill.boundary.passes_a_trial for kill in kills)


def test_order_reaches_the_driver_as_it_was_given() -> None:
    order = Order(Act.FILL, "before rename", 3, "/somewhere")
    assert Order.of(order.variables()) == order
    assert Order.of({}) is None
    assert list(order.variables()) == [VARIABLE]


# --- what is noticed


def test_wrong_name_and_missed_deadline_are_violations() -> None:
    hang = Fault("hang", {}, Kind.HUNG, deadline_s=1.0)
    run = FaultRun([Launched(hang, "hung", "crashed", 1.0), Launched(hang, "hung", "hung", 60.0)])
    result = Result([run], [], Filled("tmpfs"), {})
    assert len(result.violations) == 2
    assert "crashed" in result.violations[0]
    assert "60.0 s" in result.violations[1]


def test_torn_best_json_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "best.json"
    for text in ('{"schema_version": 1', "{}"):
        with BestReader(path) as reader:
            path.write_text(text)
        assert reader.torn
