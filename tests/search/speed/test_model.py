"""Decode time as physical quantities say it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.speed_rows import DRAFT_BYTES, MODEL_BYTES, N_LAYERS, pair_prior, rows_of
from tests.support.strategies import PROPERTY
from tuner.core.cards import Bandwidth
from tuner.search.speed.model import (
    ACCEPT,
    DECAY,
    DRAFT,
    HOP,
    INTERNAL,
    NGRAM,
    OVERHEAD,
    QUANTISED,
    REDUCE,
    VERIFY,
    Rows,
    log_cycle_s,
    log_yield,
    prior_of,
)

PRIOR = pair_prior()
PLACES = {
    "reduce": REDUCE, "overhead": OVERHEAD, "hop": HOP, "verify": VERIFY, "draft": DRAFT, "accept": ACCEPT,
    "decay": DECAY, "quantised": QUANTISED, "internal": INTERNAL, "ngram": NGRAM,
}  # fmt: skip
LAYER, TENSOR = ("layer", 0.4, 0), ("tensor", 0.4, 0)


def theta(fast: float = 8e11, slow: float = 4e11, **quantities: float) -> np.ndarray:
    """Two bandwidths; all times are next to nothing unless said, in seconds."""
    at = PRIOR.mean.copy()
    at[:2] = np.log(fast), np.log(slow)
    for place in (REDUCE, OVERHEAD, HOP, VERIFY, DRAFT):
        at[2 + place] = np.log(1e-15)
    for place in (QUANTISED, INTERNAL, NGRAM):
        at[2 + place] = 0.0
    for name, value in quantities.items():
        at[2 + PLACES[name]] = value
    return at


def seconds(at: np.ndarray, rows: Rows) -> np.ndarray:
    return np.exp(log_cycle_s(at, rows, N_LAYERS))


def test_by_layer_devices_read_one_after_the_other() -> None:
    (found,) = seconds(theta(), rows_of(LAYER))
    assert found == pytest.approx(0.4 * MODEL_BYTES / 8e11 + 0.6 * MODEL_BYTES / 4e11)


def test_by_tensor_all_wait_for_the_slowest() -> None:
    (found,) = seconds(theta(), rows_of(TENSOR))
    assert found == pytest.approx(0.6 * MODEL_BYTES / 4e11)


def test_one_device_reads_all_and_hands_nothing_over() -> None:
    (found,) = seconds(theta(hop=np.log(1.0), reduce=np.log(1.0)), rows_of(("none", 1.0, 0)))
    assert found == pytest.approx(MODEL_BYTES / 8e11)


def test_reductions_are_two_a_layer_and_in_tensor_mode_only() -> None:
    rows = rows_of(LAYER, TENSOR)
    added = seconds(theta(reduce=np.log(5e-5)), rows) - seconds(theta(), rows)
    assert added == pytest.approx([0.0, 2 * N_LAYERS * 5e-5])


def test_hand_overs_are_between_devices_of_a_layer_split_only() -> None:
    rows = rows_of(LAYER, TENSOR)
    added = seconds(theta(hop=np.log(1e-3)), rows) - seconds(theta(), rows)
    assert added == pytest.approx([1e-3, 0.0])


def test_overhead_is_everywhere() -> None:
    rows = rows_of(LAYER, TENSOR, ("none", 1.0, 0))
    assert seconds(theta(overhead=np.log(2e-3)), rows) - seconds(theta(), rows) == pytest.approx(2e-3)


def test_drafts_cost_a_pass_each_and_a_dearer_verification() -> None:
    plain, drafted = seconds(theta(verify=np.log(0.1), draft=np.log(4e-3)), rows_of(LAYER, ("layer", 0.4, 3)))
    assert drafted == pytest.approx(plain * 1.3 + 3 * (4e-3 + DRAFT_BYTES / 4e11))


@pytest.mark.parametrize(
    ("configuration", "reading_s"),
    [
        (("layer", 0.4, 1), DRAFT_BYTES / 4e11),  # the last device has the output
        (("none", 1.0, 1), DRAFT_BYTES / 8e11),
        (("tensor", 0.4, 1), 0.6 * DRAFT_BYTES / 4e11),
    ],
)
def test_a_draft_is_made_where_the_output_lies(
    configuration: tuple[str, float, int], reading_s: float
) -> None:
    mode, share, _ = configuration
    at = theta(verify=np.log(1e-9), draft=np.log(1e-9))
    plain, drafted = seconds(at, rows_of((mode, share, 0), configuration))
    assert drafted - plain == pytest.approx(reading_s, rel=1e-3)


@pytest.mark.parametrize(
    ("flag", "row", "factor"),
    [("quantised", TENSOR, 1.1), ("ngram", LAYER, 1.1), ("internal", TENSOR, 1.0), ("internal", LAYER, 1.0)],
)
def test_options_make_dearer_what_they_touch(flag: str, row: tuple[str, float, int], factor: float) -> None:
    at = theta(**{flag: np.log(1.1)})
    with_it, without = (seconds(at, rows_of(row, **{flag: on}))[0] for on in (1.0, 0.0))
    assert with_it == pytest.approx(without * factor)


def test_reductions_of_the_engines_own_cost_more() -> None:
    at = theta(reduce=np.log(5e-5), internal=np.log(1.5))
    with_it, without = (seconds(at, rows_of(TENSOR, internal=on))[0] for on in (1.0, 0.0))
    assert with_it - without == pytest.approx(0.5 * 2 * N_LAYERS * 5e-5)


def test_several_draws_at_once_are_those_draws() -> None:
    rows = rows_of(LAYER, TENSOR, ("tensor", 0.5, 4))
    draws = np.stack((theta(), theta(fast=5e11, overhead=-6.0), PRIOR.mean))
    together = log_cycle_s(draws, rows, N_LAYERS)
    assert together.shape == (3, 3)
    assert together == pytest.approx(np.stack([log_cycle_s(one, rows, N_LAYERS) for one in draws]))
    yields = log_yield(draws, rows.depth)
    assert yields == pytest.approx(np.stack([log_yield(one, rows.depth) for one in draws]))


def test_no_configuration_takes_no_time_to_work_out() -> None:
    rows = rows_of(LAYER, TENSOR).take(np.zeros(0, dtype=int))
    assert len(rows) == 0
    assert log_cycle_s(PRIOR.mean, rows, N_LAYERS).shape == (0,)


def test_taken_rows_are_those_rows() -> None:
    rows = rows_of(LAYER, TENSOR, ("tensor", 0.5, 4), quantised=1.0)
    taken = rows.take(np.array([2, 0]))
    assert list(taken.depth) == [4, 0]
    assert list(taken.tensor) == [True, False]
    assert seconds(theta(), taken) == pytest.approx(seconds(theta(), rows)[[2, 0]])


# --- what drafts yield

quantities = st.lists(st.floats(-4, 8), min_size=2, max_size=2)


def test_yield_is_what_acceptance_says() -> None:
    at = theta(accept=0.0, decay=np.log(3))  # a half, then three quarters
    found = np.exp(log_yield(at, np.array([0.0, 1.0, 2.0, 3.0])))
    assert found == pytest.approx([1, 1 + 1 / 2, 1 + 1 / 2 * (1 + 3 / 4), 1 + 1 / 2 * (1 + 3 / 4 + 9 / 16)])


@PROPERTY
@given(quantities)
def test_more_depth_never_yields_less(logits: list[float]) -> None:
    at = theta(accept=logits[0], decay=logits[1])
    found = log_yield(at, np.arange(0.0, 17.0))
    assert found[0] == 0.0
    assert (np.diff(found) >= 0).all()
    assert (np.exp(found) <= np.arange(1, 18) + 1e-9).all()


def test_yield_is_finite_where_all_is_accepted() -> None:
    at = theta(accept=60.0, decay=60.0)
    assert np.exp(log_yield(at, np.array([4.0]))) == pytest.approx(5.0, rel=1e-6)


# --- beforehand


def test_prior_has_a_bandwidth_a_device_and_the_same_else() -> None:
    known = [Bandwidth(1e12, 0.3), Bandwidth(5e11, 1.0), Bandwidth(2e11, 0.5)]
    one, three = prior_of(known[:1], 32), prior_of(known, 32)
    assert (one.n_devices, three.n_devices) == (1, 3)
    assert np.exp(three.mean[:3]) == pytest.approx([1e12, 5e11, 2e11])
    assert list(three.sigma[:3]) == [0.3, 1.0, 0.5]
    assert list(one.mean[1:]) == list(three.mean[3:])
    assert (three.sigma > 0).all()


def test_prior_is_a_rig_that_may_be() -> None:
    (plain,) = seconds(PRIOR.mean, rows_of(LAYER))
    assert 1 / 60 < MODEL_BYTES / 6e11 < plain < 1 / 10
