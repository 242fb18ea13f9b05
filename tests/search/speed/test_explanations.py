"""Explanations of trials: one where they decide, several where they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.speed_rows import measured_of, pair_prior, rows_of
from tuner.search.speed.explanations import explanations
from tuner.search.speed.surprise import USUAL

if TYPE_CHECKING:
    from tuner.search.speed.fit import Fitted

MODEL_SIGMA = 0.03
#: Of the first device too little is believed.
PRIOR = pair_prior(sigma=1.0).pinned(0, np.log(2e11), 1.0)


def explained(*rows: tuple[str, float, int]) -> tuple[tuple[float, Fitted], ...]:
    """Exact trials on a pair of 900 and 450 GB/s."""
    truth = PRIOR.mean.copy()
    truth[:2] = np.log(9e11), np.log(4.5e11)
    return explanations(PRIOR, measured_of(truth, rows_of(*rows)), MODEL_SIGMA, USUAL)


def gb_s(fitted: Fitted) -> np.ndarray:
    return np.exp(fitted.theta[:2]) / 1e9


DECISIVE = [("none", share, 0) for share in (0.0, 1.0)] + [
    (mode, share, 0) for mode in ("layer", "tensor") for share in (0.2, 0.5, 0.8)
]
#: The second device holds tensor mode up at each of these shares of the first.
HELD_UP = [("tensor", share, 0) for share in (0.3, 0.4, 0.5)]


def test_where_trials_decide_there_is_one_explanation() -> None:
    ((share, only),) = explained(*DECISIVE)
    assert share == 1.0
    assert gb_s(only) == pytest.approx([900, 450], rel=0.05)


def test_a_device_that_was_never_waited_for_may_be_any_that_is_fast_enough() -> None:
    found = explained(*HELD_UP)
    firsts = [gb_s(one)[0] for _, one in found]
    assert len(found) > 1
    assert max(firsts) > 1.4 * min(firsts)
    for share, one in found:
        assert gb_s(one)[0] > 0.9 * gb_s(one)[1]
        assert share < 0.1 or gb_s(one)[1] == pytest.approx(450, rel=0.2)


@pytest.mark.parametrize("rows", [DECISIVE, HELD_UP, HELD_UP[:1]])
def test_probabilities_add_up_and_the_likeliest_comes_first(rows: list[tuple[str, float, int]]) -> None:
    shares = [share for share, _ in explained(*rows)]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert all(share > 0 for share in shares)


def test_same_trials_have_the_same_explanations() -> None:
    one, other = explained(*HELD_UP), explained(*HELD_UP)
    assert [share for share, _ in one] == [share for share, _ in other]
    for (_, first), (_, second) in zip(one, other, strict=True):
        assert (first.theta == second.theta).all()
