"""What failed launches say of configurations like them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.played_search import TASK
from tests.support.trials import a_record, ended, measured
from tuner.core.outcome import Kind
from tuner.search.coordinates import complete
from tuner.search.speed.failures import chance_to_work
from tuner.search.speed.pool import Pool

if TYPE_CHECKING:
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord

POOL = Pool(TASK.bound)
TENSOR: dict[str, Value] = {"split-mode": "tensor", "tensor-split": (1, 1)}
LAYER: dict[str, Value] = {"split-mode": "layer", "tensor-split": (1, 1)}
Q8_0: dict[str, Value] = {"cache-type-k": "q8_0", "cache-type-v": "q8_0"}


def chances(*trials: tuple[dict[str, Value], Kind]) -> dict[str, float]:
    """The least chance of plain layer and of plain tensor configurations after some launches."""
    records: list[TrialRecord] = []
    for number, (options, kind) in enumerate(trials):
        result = measured(50.0) if kind is Kind.NONE else ended(kind)
        records.append(a_record(number, complete(TASK.bound, options), result))
    seen = POOL.rows_of([record.candidate for record in records if record.candidate is not None])
    chance = chance_to_work(POOL.rows, seen, records)
    rows = POOL.rows
    plain = (rows.depth == 0) & (rows.quantised == 0) & (rows.internal == 0)
    layer = plain & ~rows.tensor & (rows.boundaries > 0)
    return {"layer": float(chance[layer].min()), "tensor": float(chance[plain & rows.tensor].min())}


def test_nothing_failed_and_nothing_is_suspected() -> None:
    assert chances() == {"layer": 1.0, "tensor": 1.0}
    assert chances((TENSOR, Kind.NONE)) == {"layer": 1.0, "tensor": 1.0}
    assert chances((TENSOR, Kind.OUT_OF_MEMORY)) == {"layer": 1.0, "tensor": 1.0}


def test_a_mode_that_the_engine_refuses_is_suspected_at_once_and_more_each_time() -> None:
    once = chances((LAYER, Kind.NONE), (TENSOR, Kind.UNSUPPORTED))
    twice = chances((LAYER, Kind.NONE), (TENSOR, Kind.UNSUPPORTED), ({**TENSOR, **Q8_0}, Kind.UNSUPPORTED))
    assert once["layer"] > 0.2
    assert once["tensor"] < 0.1
    assert twice["tensor"] < once["tensor"] / 2


def test_a_launch_that_worked_clears_what_it_had() -> None:
    worse = chances(({**TENSOR, **Q8_0}, Kind.CRASHED))
    better = chances(({**TENSOR, **Q8_0}, Kind.CRASHED), (TENSOR, Kind.NONE))
    assert better["tensor"] > worse["tensor"]


def test_a_crash_counts_less_than_a_refusal() -> None:
    assert chances((TENSOR, Kind.CRASHED))["tensor"] > chances((TENSOR, Kind.UNSUPPORTED))["tensor"]
