"""What launches have taught, and what of it counts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, texts
from tuner.core.memory.learned import Learned, Observation, kept
from tuner.core.memory.runtime import Situation, prior

LAYER = Situation("CUDA", "layer", drafts=False, nccl=False)
SEEN = Observation("GPU-a", LAYER.key, "engine model", 900.0, 900.0)

_bounds = st.none() | st.floats(-1e6, 1e6)
observations = st.builds(Observation, texts, texts, texts, _bounds, _bounds)


@PROPERTY
@given(observations)
def test_observation_comes_back_from_json(observation: Observation) -> None:
    assert Observation.from_json(json.loads(json.dumps(observation.to_json()))) == observation


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"low_mib": "much"}, ValueError),
        ({"low_mib": float("nan")}, ValueError),
        ({"high_mib": float("-inf")}, ValueError),
        ({"high_mib": []}, TypeError),
    ],
)
def test_number_that_is_none_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Observation.from_json({**SEEN.to_json(), **change})


def test_missing_field_is_refused() -> None:
    with pytest.raises(KeyError):
        Observation.from_json({"device": "GPU-a"})


# --- what counts


def test_nothing_known_is_the_prior() -> None:
    assert Learned().belief("GPU-a", LAYER) == prior(LAYER)


def test_what_was_seen_of_the_device_counts() -> None:
    belief = Learned((SEEN,), "engine model").belief("GPU-a", LAYER)
    assert belief.mean == pytest.approx(900, abs=30)


@pytest.mark.parametrize(
    "other",
    [
        replace(SEEN, device="GPU-b"),
        replace(SEEN, situation="RPC/layer"),
        replace(SEEN, situation="CUDA/layer/stated"),
        replace(SEEN, situation="of a later version"),
    ],
)
def test_another_device_or_kind_of_memory_does_not_count(other: Observation) -> None:
    assert Learned((other,), "engine model").belief("GPU-a", LAYER) == prior(LAYER)


@pytest.mark.parametrize("situation", ["CUDA/tensor/nccl", "CUDA/layer/drafts"])
def test_another_situation_of_the_device_counts_less(situation: str) -> None:
    same = Learned((SEEN,), "engine model").belief("GPU-a", LAYER)
    expected = Situation.from_key(situation)
    assert expected is not None
    surprise = SEEN.low_mib - prior(LAYER).mean  # type: ignore[operator]
    known = prior(expected).mean + surprise
    other = replace(SEEN, situation=situation, low_mib=known, high_mib=known)
    belief = Learned((other,), "engine model").belief("GPU-a", LAYER)
    assert prior(LAYER).mean < belief.mean < same.mean
    assert same.sigma < belief.sigma < prior(LAYER).sigma


@pytest.mark.parametrize("half", ["engine/other-model", "other-engine/model"])
def test_another_engine_or_model_counts_less_and_both_least(half: str) -> None:
    seen = replace(SEEN, source="engine/model")
    same, partly, other = (
        Learned((seen,), source).belief("GPU-a", LAYER)
        for source in ("engine/model", half, "other-engine/other-model")
    )
    assert prior(LAYER).mean < other.mean < partly.mean < same.mean
    assert prior(LAYER).sigma > other.sigma > partly.sigma > same.sigma


def test_more_is_added_at_the_end() -> None:
    later = replace(SEEN, low_mib=1.0)
    assert Learned((SEEN,), "s").with_more([later]) == Learned((SEEN, later), "s")


def test_newest_observations_win() -> None:
    """A driver update changes what is true; 24 launches later nothing of before is left."""
    old, new = replace(SEEN, low_mib=400.0, high_mib=400.0), SEEN
    after = Learned((old,) * 30 + (new,) * 24, "engine model").belief("GPU-a", LAYER)
    assert after == Learned((new,) * 24, "engine model").belief("GPU-a", LAYER)


# --- what is kept


def test_newest_24_of_each_kind_are_kept_in_their_order() -> None:
    many = tuple(replace(SEEN, low_mib=float(number)) for number in range(30))
    other = replace(SEEN, source="another")
    assert kept((other, *many)) == (other, *many[6:])


@PROPERTY
@given(
    st.lists(st.builds(replace, st.just(SEEN), device=st.sampled_from("ab"), low_mib=_bounds), max_size=80)
)
def test_keeping_again_changes_nothing(many: list[Observation]) -> None:
    once = kept(many)
    assert kept(once) == once
    for device in "ab":
        of_device = [one for one in many if one.device == device]
        assert [one for one in once if one.device == device] == of_device[-24:]
