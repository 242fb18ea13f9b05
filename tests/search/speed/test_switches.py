"""What options cost that the speed model knows nothing of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tuner.core.candidate import Candidate
from tuner.search.speed.switches import switch_effects

if TYPE_CHECKING:
    from tuner.core.options import Value

N = 8


def candidates(**options: tuple[Value, ...]) -> list[Candidate]:
    """Eight that differ by the split, and by these options, in turn."""
    found = []
    for place in range(N):
        own = {name.replace("_", "-"): values[place % len(values)] for name, values in options.items()}
        found.append(Candidate.of({"tensor-split": (1 + place, 9 - place), **own}))
    return found


def effects(some: list[Candidate], residuals: np.ndarray, noise: float = 0.01) -> np.ndarray:
    return switch_effects(some, residuals, np.full(len(some), noise))


def test_without_a_trial_there_is_no_effect() -> None:
    assert switch_effects([], np.zeros(0), np.zeros(0)).shape == (0,)


def test_options_that_all_have_alike_have_no_effect() -> None:
    found = effects(candidates(kv_unified=(True,), load_mode=("none",)), np.linspace(-0.1, 0.1, N))
    assert (found == 0).all()


@pytest.mark.parametrize("name", ["ctx_size", "cache_type_k", "spec_draft_n_max", "split_mode"])
def test_options_that_the_model_has_in_it_are_left_to_it(name: str) -> None:
    assert (effects(candidates(**{name: (1, 2)}), np.tile([0.2, -0.2], N // 2)) == 0).all()


def test_a_switch_that_costs_is_found() -> None:
    found = effects(candidates(kv_unified=(False, False, True)), np.tile([0.0, 0.0, 0.06], 3)[:N])
    with_it = np.arange(N) % 3 == 2
    assert found[with_it] == pytest.approx(0.06, abs=0.01)
    assert found[~with_it] == pytest.approx(0.0)


def test_two_switches_are_told_apart() -> None:
    cost = np.array([0.05 * (place % 2) - 0.04 * (place // 2 % 2) for place in range(N)])
    found = effects(candidates(kv_unified=(False, True), load_mode=("mmap", "mmap", "none", "none")), cost)
    assert found - found.mean() == pytest.approx(cost - cost.mean(), abs=0.015)


def test_an_effect_is_small_unless_trials_insist() -> None:
    some = candidates(kv_unified=(False, False, False, False, False, False, False, True))
    error = np.array([0.0] * 7 + [0.06])
    sure, doubtful = effects(some, error, 0.005)[-1], effects(some, error, 0.1)[-1]
    assert sure == pytest.approx(0.06, abs=0.005)
    assert 0 < doubtful < 0.5 * sure


def test_more_trials_insist_more() -> None:
    rare, often = candidates(kv_unified=(True, *[False] * 7)), candidates(kv_unified=(True, False))
    costs = [np.array([0.06 * (one.get("kv-unified") is True) for one in some]) for some in (rare, often)]
    # the speed model has taken the mean
    few, many = (
        effects(some, cost - cost.mean(), 0.06) for some, cost in zip((rare, often), costs, strict=True)
    )
    assert abs(many[0] - many[1]) > few[0] - few[1] > 0


def test_an_option_that_some_do_not_have_is_a_value_of_its_own() -> None:
    some = candidates()
    some[5] = some[5].with_options({"kv-unified": True})
    found = effects(some, np.array([0.0] * 5 + [0.06, 0.0, 0.0]))
    assert found[5] > 0.05
    assert (np.delete(found, 5) == 0).all()
