"""What is believed of the memory that no line names."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.memory.runtime import Belief, Evidence, Situation, apart_mib, posterior, prior

LAYER = Situation("CUDA", "layer", drafts=False, nccl=False)
BEFORE = Belief(600.0, 150.0)

_mib = st.floats(-1e6, 1e6)
evidence = st.builds(Evidence, st.none() | _mib, st.none() | _mib, st.floats(1.0, 200.0))
situations = st.builds(
    Situation,
    st.sampled_from(["CUDA", "ROCm", "Vulkan", "RPC", "stated"]),
    st.sampled_from(["layer", "tensor", "none"]),
    drafts=st.booleans(),
    nccl=st.booleans(),
)


def at_least(mib: float) -> Evidence:
    return Evidence(mib, None)


def at_most(mib: float) -> Evidence:
    return Evidence(None, mib)


def reading(mib: float) -> Evidence:
    return Evidence(mib, mib)


# --- before


def test_no_evidence_leaves_the_prior() -> None:
    assert posterior(BEFORE, []) is BEFORE
    assert posterior(BEFORE, [Evidence(None, None)]).mean == pytest.approx(600)


@PROPERTY
@given(situations)
def test_every_situation_has_a_prior_and_a_key_of_its_own(situation: Situation) -> None:
    belief = prior(situation)
    assert belief.mean > 0
    assert belief.sigma > 0
    assert situation.key.startswith(f"{situation.backend}/{situation.mode}")


def test_keys_tell_situations_apart() -> None:
    keys = {
        Situation("CUDA", "tensor", drafts=drafts, nccl=nccl).key
        for drafts in (False, True)
        for nccl in (False, True)
    }
    assert len(keys) == 4
    assert LAYER.key == "CUDA/layer"


def test_reductions_and_drafts_are_expected_to_take_more() -> None:
    tensor = prior(Situation("CUDA", "tensor", drafts=False, nccl=False)).mean
    nccl = prior(Situation("CUDA", "tensor", drafts=False, nccl=True)).mean
    both = prior(Situation("CUDA", "tensor", drafts=True, nccl=True)).mean
    assert tensor < nccl < both


# --- readings


def test_reading_pulls_the_mean_to_it_and_sharpens_it() -> None:
    after = posterior(BEFORE, [reading(800)])
    assert after.mean == pytest.approx(800, abs=10)
    assert after.sigma < 30


def test_more_readings_sharpen_further() -> None:
    sigmas = [posterior(BEFORE, [reading(800)] * count).sigma for count in (1, 2, 4, 8)]
    assert sigmas == sorted(sigmas, reverse=True)


def test_readings_average() -> None:
    assert posterior(BEFORE, [reading(700), reading(740)] * 4).mean == pytest.approx(720, abs=5)


@PROPERTY
@given(st.floats(-3000, 3000))
def test_one_reading_gives_what_two_normal_distributions_give(mib: float) -> None:
    after = posterior(BEFORE, [reading(mib)])
    weight = 150**2 / (150**2 + 24**2)
    assert after.mean == pytest.approx(600 + weight * (mib - 600), abs=3)
    assert after.sigma == pytest.approx(24 * weight**0.5, abs=3)


# --- bounds


def test_lower_bound_above_the_mean_raises_it() -> None:
    after = posterior(BEFORE, [at_least(750)])
    assert after.mean > 750
    assert after.sigma < BEFORE.sigma


def test_upper_bound_below_the_mean_lowers_it() -> None:
    after = posterior(BEFORE, [at_most(450)])
    assert after.mean < 450
    assert after.sigma < BEFORE.sigma


@pytest.mark.parametrize("far", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("before", [BEFORE, Belief(4.0, 8.0)])
def test_bound_on_the_far_side_leaves_it_alone(before: Belief, far: float) -> None:
    """A stated device with much room to spare gives such bounds."""
    for bound in (at_least(before.mean - far), at_most(before.mean + far)):
        after = posterior(before, [bound])
        assert after.mean == pytest.approx(before.mean, abs=0.05 * before.sigma)
        assert after.sigma == pytest.approx(before.sigma, rel=0.05)


def test_bounds_from_both_sides_enclose() -> None:
    after = posterior(BEFORE, [at_least(700), at_most(800)])
    assert 700 < after.mean < 800


@PROPERTY
@given(st.floats(0, 1200), st.floats(1, 400))
def test_higher_bound_raises_the_mean_more(low: float, more: float) -> None:
    assert posterior(BEFORE, [at_least(low + more)]).mean >= posterior(BEFORE, [at_least(low)]).mean - 1
    assert posterior(BEFORE, [at_most(low + more)]).mean >= posterior(BEFORE, [at_most(low)]).mean - 1


def test_one_misread_bound_does_not_rule_everything_out() -> None:
    assert posterior(BEFORE, [at_least(50_000)]).mean == pytest.approx(600, abs=50)


# --- anything


def test_evidence_that_contradicts_itself_is_no_error() -> None:
    after = posterior(BEFORE, [at_least(2000), at_most(100), reading(600), Evidence(900, 300)])
    assert 100 < after.mean < 2000


@PROPERTY
@given(situations, st.lists(evidence, max_size=6))
def test_any_evidence_leaves_a_belief(situation: Situation, found: list[Evidence]) -> None:
    after = posterior(prior(situation), found)
    assert isfinite(after.mean)
    assert isfinite(after.sigma)
    assert after.sigma > 0


# --- bounds that contradict a belief

SURE = Belief(250.0, 30.0)


def test_a_bound_far_out_makes_a_sharp_belief_blunt() -> None:
    """One launch that was sure to fit and did not: another that is a little smaller is not sure at all."""
    after = posterior(SURE, [at_least(350)])
    assert after.mean > 380
    assert after.sigma > 30


def test_bounds_that_agree_leave_a_sharp_belief_sharp() -> None:
    for bound in (at_least(240), at_most(260), at_least(100)):
        assert posterior(SURE, [bound]).sigma <= 30


# --- situations


def test_situations_are_the_further_apart_the_more_they_differ_in() -> None:
    layer = Situation("CUDA", "layer", drafts=False, nccl=False)
    others = [
        layer,
        replace(layer, mode="tensor"),
        replace(layer, mode="tensor", drafts=True),
        replace(layer, mode="tensor", drafts=True, nccl=True),
    ]
    found = [apart_mib(layer, other) for other in others]
    assert found == sorted(set(found))
    assert apart_mib(layer, replace(layer, mode="none")) == found[0]
    assert apart_mib(others[2], layer) == found[2]


def test_what_nccl_takes_says_little_of_a_context() -> None:
    assert apart_mib(
        Situation("CUDA", "tensor", drafts=True, nccl=True),
        Situation("CUDA", "tensor", drafts=True, nccl=False),
    ) > 2 * apart_mib(
        Situation("CUDA", "tensor", drafts=True, nccl=False),
        Situation("CUDA", "layer", drafts=True, nccl=False),
    )
