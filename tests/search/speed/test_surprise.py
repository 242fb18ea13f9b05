"""What the errors of some trials say of other configurations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.speed_rows import rows_of
from tuner.search.speed.surprise import surprise, usual_sigma

SEEN = rows_of(*[("layer", share, 0) for share in (0.2, 0.4, 0.6, 0.8)])
SMALL = np.array([0.05, 0.06, -0.04, -0.05])
NOISE = np.full(4, 0.02)
NO_ROWS = SEEN.take(np.zeros(0, dtype=int))


def test_without_a_trial_nothing_is_expected_and_the_usual_doubt_is_left() -> None:
    found = surprise(SEEN, NO_ROWS, np.zeros(0), np.zeros(0))
    assert (found.mean == 0).all()
    assert (found.sigma == usual_sigma(np.zeros(0))).all()


def test_far_from_all_trials_nothing_is_expected_with_the_usual_doubt() -> None:
    deep_by_tensor = rows_of(("tensor", 0.99, 8), quantised=1.0, internal=1.0, ngram=1.0)
    found = surprise(deep_by_tensor, SEEN, SMALL, NOISE)
    assert found.mean[0] == pytest.approx(0.0, abs=0.005)
    assert found.sigma[0] == pytest.approx(usual_sigma(SMALL), rel=0.02)


def test_at_a_trial_its_error_is_expected_again() -> None:
    found = surprise(SEEN, SEEN, SMALL, NOISE)
    assert found.mean == pytest.approx(SMALL, abs=0.03)
    assert np.sign(found.mean) == pytest.approx(np.sign(SMALL))
    assert (found.sigma < 0.7 * usual_sigma(SMALL)).all()


def test_a_sharper_measurement_is_believed_more() -> None:
    sharp, blunt = (surprise(SEEN, SEEN, SMALL, np.full(4, noise)) for noise in (0.001, 0.1))
    assert np.abs(sharp.mean - SMALL).max() < 0.002 < np.abs(blunt.mean - SMALL).max()
    assert (sharp.sigma < blunt.sigma).all()


def test_doubt_grows_with_the_distance() -> None:
    rows = rows_of(*[("layer", share, 0) for share in (0.8, 0.85, 0.9, 1.0)])
    sigma = surprise(rows, SEEN, SMALL, NOISE).sigma
    assert (np.diff(sigma) > 0).all()


@pytest.mark.parametrize("flag", ["quantised", "internal", "ngram"])
def test_other_options_are_less_alike(flag: str) -> None:
    same, other = (
        surprise(rows_of(("layer", 0.2, 0), **{flag: on}), SEEN, SMALL, NOISE) for on in (0.0, 1.0)
    )
    assert abs(other.mean[0]) < abs(same.mean[0])
    assert other.sigma[0] > same.sigma[0]


# --- what is far off

CURSED = rows_of(
    ("layer", 0.5, 0), ("layer", 0.3, 0), ("layer", 0.7, 0), ("tensor", 0.5, 3), ("tensor", 0.3, 3)
)
ERRORS = np.array([0.03, -0.02, 0.02, 0.9, 0.01])
FIVE = np.full(5, 0.02)


def test_the_very_combination_is_expected_to_be_as_bad_again() -> None:
    found = surprise(CURSED, CURSED, ERRORS, FIVE)
    assert found.mean[3] == pytest.approx(0.9, abs=0.05)


def test_one_that_is_far_off_barely_moves_another_mode() -> None:
    calm = ERRORS.copy()
    calm[3] = 0.02
    rows = rows_of(("layer", 0.5, 0), ("layer", 0.5, 3))
    moved = surprise(rows, CURSED, ERRORS, FIVE).mean - surprise(rows, CURSED, calm, FIVE).mean
    assert np.abs(moved).max() < 0.12 * 0.9


def test_one_that_is_far_off_does_not_widen_the_usual_doubt() -> None:
    assert usual_sigma(ERRORS) < 0.05


def test_neighbours_of_one_that_is_far_faster_are_in_doubt() -> None:
    fast = np.where(ERRORS == 0.9, -0.9, ERRORS)
    near, away = rows_of(("tensor", 0.7, 3)), rows_of(("layer", 0.95, 0), quantised=1.0)
    sigma = [surprise(rows, CURSED, fast, FIVE).sigma[0] for rows in (near, away)]
    assert sigma[0] > 3 * sigma[1]


def test_one_that_is_far_slower_says_nothing_of_those_that_have_another_option() -> None:
    others = rows_of(("tensor", 0.5, 3), quantised=1.0), rows_of(("tensor", 0.5, 3), internal=1.0)
    for other in others:
        found = surprise(other, CURSED, ERRORS, FIVE)
        assert abs(found.mean[0]) < 0.03
        assert found.sigma[0] < 0.1


def test_errors_of_trials_are_their_own_beside_one_that_is_far_off() -> None:
    twin = rows_of(("tensor", 0.5, 3), ("tensor", 0.5, 3), ("tensor", 0.4, 3), ("tensor", 0.6, 3))
    seen = replace(twin, internal=np.array([0.0, 1.0, 1.0, 1.0]))
    found = surprise(seen, seen, np.array([1.4, 0.01, -0.01, 0.02]), NOISE)
    assert found.mean[1:] == pytest.approx([0.01, -0.01, 0.02], abs=0.02)


def test_where_all_are_far_off_none_is() -> None:
    found = surprise(SEEN, SEEN, np.array([0.8, -0.7, 0.9, -0.8]), NOISE)
    assert np.isfinite(found.mean).all()
    assert (found.sigma > 0).all()


# --- the usual error


def test_a_few_trials_are_never_taken_for_certainty() -> None:
    assert usual_sigma(np.zeros(2)) > usual_sigma(np.zeros(20)) > 0


def test_usual_error_is_that_of_a_normal_distribution() -> None:
    draws = np.random.default_rng(3).normal(0, 0.2, 2_000)
    assert usual_sigma(draws) == pytest.approx(0.2, rel=0.1)
