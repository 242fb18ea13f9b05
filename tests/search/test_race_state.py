"""What is kept beside the trials of a race."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, texts
from tuner.search.confirmation.state import Confirmation
from tuner.search.confirmation.verdict import Plan
from tuner.search.race_state import RaceState
from tuner.search.racing import Out
from tuner.search.side_by_side import Arm, arm_key

COMPARISON = Confirmation(2, Plan((arm_key("a"), arm_key("b")), (), 4, 0.01), (600.0, None))
STATE = RaceState(
    ("a", "b", "c"),
    (600.0, 40),
    out=(Out("c", "a", "slower", 8),),
    searched=True,
    proof_s=MappingProxyType({"a": 100.0, "b": None}),
    reference="a",
    arms=MappingProxyType({"a": Arm("a", "k1"), "b": Arm("b", "k2")}),
    comparison=COMPARISON,
    rounds=2,
)

states = st.builds(
    RaceState,
    st.lists(texts, max_size=3).map(tuple),
    st.tuples(st.none() | st.floats(1, 1e6), st.none() | st.integers(1, 999)),
    st.lists(st.builds(Out, texts, st.none() | texts, texts, st.integers(0, 99)), max_size=2).map(tuple),
    st.none() | st.tuples(texts, st.integers(1, 99)),
    st.booleans(),
    st.dictionaries(texts, st.none() | st.floats(0, 1e6), max_size=3),
    st.none() | texts,
    st.dictionaries(texts, st.builds(Arm, texts, texts), max_size=2),
    st.sampled_from([None, COMPARISON]),
    st.integers(0, 3),
)


@PROPERTY
@given(states)
def test_a_state_survives_json(state: RaceState) -> None:
    assert RaceState.from_json(json.loads(json.dumps(state.to_json()))) == state


@pytest.mark.parametrize("budget", [(600.0, 40), (300.0, 40), (600.0, 10)])
def test_with_no_more_than_before_it_stands(budget: tuple[float, int]) -> None:
    assert STATE.taken_up(["a", "b", "c"], budget) == STATE


@pytest.mark.parametrize("budget", [(700.0, 40), (600.0, 41), (None, 40), (600.0, None)])
def test_with_more_to_use_the_search_goes_on_and_what_follows_is_open(
    budget: tuple[float | None, int | None],
) -> None:
    taken = STATE.taken_up(["a", "b", "c"], budget)
    assert taken == RaceState(("a", "b", "c"), budget, out=STATE.out, reference="a", rounds=2)


def test_with_another_study_too_and_without_one_that_beat_another() -> None:
    assert STATE.taken_up(["a", "b", "c", "d"], STATE.budget).out == STATE.out
    without = STATE.taken_up(["b", "c"], STATE.budget)
    assert (without.out, without.reference, without.searched) == ((), None, False)
