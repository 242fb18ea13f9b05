"""What failed launches say of configurations like them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.played_search import TASK
from tests.support.trials import a_record, ended, measured
from tuner.core.outcome import Kind, Outcome, Phase, Stage
from tuner.search.coordinates import complete
from tuner.search.speed.failures import chance_to_work, failed, weight_of
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
    chance = chance_to_work(POOL.rows, seen, [weight_of(record) for record in records])
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
    assert twice["tensor"] < once["tensor"]
    assert twice["layer"] > 0.9


def test_a_launch_that_worked_clears_what_it_had() -> None:
    worse = chances(({**TENSOR, **Q8_0}, Kind.CRASHED))
    better = chances(({**TENSOR, **Q8_0}, Kind.CRASHED), (TENSOR, Kind.NONE))
    assert better["tensor"] > worse["tensor"]


def test_where_nothing_has_worked_yet_the_unlike_is_tried_next() -> None:
    only = chances((TENSOR, Kind.UNSUPPORTED))
    assert only["layer"] > 2 * only["tensor"]


def test_a_combination_is_found_out_when_its_parts_are_cleared() -> None:
    internal: dict[str, Value] = {"GGML_CUDA_ALLREDUCE": "internal"}
    after = chances(
        (TENSOR, Kind.NOT_AS_ASKED),
        ({**TENSOR, **Q8_0}, Kind.NONE),
        ({**TENSOR, **internal}, Kind.NONE),
        (LAYER, Kind.NONE),
    )
    assert after["layer"] > 0.9
    assert after["tensor"] < 0.1


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Outcome(Kind.DEGRADED, phase=Phase.BENCHMARK, evidence="nonsense"), True),
        (Outcome(Kind.DEGRADED, phase=Phase.LOAD, evidence="a slow path"), True),
        (Outcome(Kind.DEGRADED, phase=Phase.LOAD, stage=Stage.COMPUTE, device="CUDA0"), False),
        (Outcome(Kind.DEGRADED, phase=Phase.LOAD, inferred=True), False),
        (Outcome(Kind.OUT_OF_MEMORY, stage=Stage.KV), False),
        (Outcome(Kind.STOPPED), False),
        (Outcome(Kind.NONE), False),
    ],
)
def test_what_did_not_fit_or_was_stopped_says_nothing_of_its_like(*, outcome: Outcome, counts: bool) -> None:
    record = a_record(0, complete(TASK.bound, TENSOR), replace(ended(outcome.kind), outcome=outcome))
    assert failed(record) is counts
    if counts:
        assert weight_of(record) > 0


def test_a_crash_counts_less_than_a_refusal() -> None:
    assert chances((TENSOR, Kind.CRASHED))["tensor"] > chances((TENSOR, Kind.UNSUPPORTED))["tensor"]
