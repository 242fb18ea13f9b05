"""The speed model fitted to what was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.speed_rows import N_LAYERS, measured_of, pair_prior, rows_of
from tuner.search.speed.fit import Fitted, Measured, fit, slopes_of
from tuner.search.speed.model import ACCEPT, DECAY, REDUCE, log_cycle_s, log_yield

MODEL_SIGMA = 0.03
PRIOR = pair_prior()


def truth() -> np.ndarray:
    """900 and 450 GB/s where 600 are believed, and slower reductions."""
    at = PRIOR.mean.copy()
    at[:2] = np.log(9e11), np.log(4.5e11)
    at[2 + REDUCE] = np.log(8e-5)
    at[2 + ACCEPT], at[2 + DECAY] = 1.0, 1.2
    return at


ROWS = rows_of(
    *[("layer", share, 0) for share in (0.2, 0.5, 0.8)],
    *[("tensor", share, 0) for share in (0.3, 0.5, 0.7)],
    *[("none", share, 0) for share in (0.0, 1.0)],
    *[("tensor", 0.6, depth) for depth in (1, 3, 6)],
    *[("layer", 0.6, depth) for depth in (2, 5)],
)
EXACT = measured_of(truth(), ROWS)


def bandwidths(fitted: Fitted) -> np.ndarray:
    return np.exp(fitted.theta[:2])


def some(measured: Measured, places: list[int]) -> Measured:
    chosen = np.array(places, dtype=int)
    return Measured(
        measured.rows.take(chosen),
        measured.log_cycle_s[chosen],
        measured.cycle_sigma[chosen],
        measured.yields[chosen],
    )


def test_without_a_trial_the_prior_stands() -> None:
    fitted = fit(PRIOR, some(EXACT, []), MODEL_SIGMA)
    assert fitted.theta == pytest.approx(PRIOR.mean)
    assert np.sqrt(np.diag(fitted.covariance)) == pytest.approx(PRIOR.sigma)
    assert fitted.residuals.shape == (0,)


def test_exact_measurements_give_the_quantities_back() -> None:
    fitted = fit(PRIOR, EXACT, MODEL_SIGMA)
    assert bandwidths(fitted) == pytest.approx([9e11, 4.5e11], rel=0.03)
    assert np.exp(fitted.theta[2 + REDUCE]) == pytest.approx(8e-5, rel=0.1)
    assert np.abs(fitted.residuals).max() < 0.01
    depths = np.array([1.0, 3.0, 6.0, 8.0])
    assert log_yield(fitted.theta, depths) == pytest.approx(log_yield(truth(), depths), abs=0.02)


def test_what_was_not_measured_is_foretold() -> None:
    others = rows_of(("tensor", 0.667, 2), ("layer", 0.35, 0), ("layer", 0.9, 4))
    fitted = fit(PRIOR, EXACT, MODEL_SIGMA)
    assert log_cycle_s(fitted.theta, others, N_LAYERS) == pytest.approx(
        log_cycle_s(truth(), others, N_LAYERS), abs=0.02
    )


def test_each_trial_makes_surer() -> None:
    def sigma(places: list[int]) -> float:
        fitted = fit(PRIOR, some(EXACT, places), MODEL_SIGMA)
        return float(np.sqrt(np.diag(fitted.covariance))[:2].sum())

    assert sigma([]) > sigma([0]) > sigma([0, 1, 2]) > sigma(list(range(len(ROWS))))


def test_covariance_is_one() -> None:
    covariance = fit(PRIOR, EXACT, MODEL_SIGMA).covariance
    assert covariance == pytest.approx(covariance.T)
    assert (np.linalg.eigvalsh(covariance) > 0).all()


@pytest.mark.parametrize("place", [1, 4, 9])
@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_one_wild_trial_hardly_moves_the_others(place: int, factor: float) -> None:
    logs = EXACT.log_cycle_s.copy()
    logs[place] += np.log(factor)
    fitted = fit(PRIOR, replace(EXACT, log_cycle_s=logs), MODEL_SIGMA)
    assert bandwidths(fitted) == pytest.approx([9e11, 4.5e11], rel=0.08)
    assert fitted.residuals[place] == pytest.approx(np.log(factor), abs=0.15)
    assert np.abs(np.delete(fitted.residuals, place)).max() < 0.1


def test_noise_of_a_few_per_cent_is_averaged_out() -> None:
    rng = np.random.default_rng(5)
    twice = some(EXACT, [*range(len(ROWS)), *range(len(ROWS))])
    noisy = replace(twice, log_cycle_s=twice.log_cycle_s + rng.normal(0, 0.02, len(twice.rows)))
    assert bandwidths(fit(PRIOR, noisy, MODEL_SIGMA)) == pytest.approx([9e11, 4.5e11], rel=0.05)


def test_trials_without_drafts_say_nothing_of_acceptance() -> None:
    plain = some(EXACT, list(range(8)))
    fitted = fit(PRIOR, plain, MODEL_SIGMA)
    assert fitted.theta[2 + ACCEPT] == pytest.approx(PRIOR.mean[2 + ACCEPT])
    assert fitted.theta[2 + DECAY] == pytest.approx(PRIOR.mean[2 + DECAY])


def test_a_rig_that_is_far_from_what_was_believed_is_found() -> None:
    at = truth()
    at[:2] = np.log(3.3e12), np.log(1.5e11)
    wide = pair_prior(sigma=1.0)
    assert bandwidths(fit(wide, measured_of(at, ROWS), MODEL_SIGMA)) == pytest.approx(
        [3.3e12, 1.5e11], rel=0.06
    )


def test_same_trials_give_the_same_fit() -> None:
    one, other = (fit(PRIOR, EXACT, MODEL_SIGMA) for _ in range(2))
    assert (one.theta == other.theta).all()
    assert (one.covariance == other.covariance).all()


def test_slopes_are_those_of_the_function() -> None:
    at, slopes = slopes_of(
        lambda rows: np.stack((rows[:, 0] ** 2, rows[:, 0] * rows[:, 1], np.full(len(rows), 3.0)), axis=1),
        np.array([2.0, 5.0]),
    )
    assert at == pytest.approx([4, 10, 3])
    assert slopes == pytest.approx(np.array([[4, 0], [5, 2], [0, 0]]), abs=1e-4)
