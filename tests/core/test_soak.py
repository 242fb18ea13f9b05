"""What would disqualify a winner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, amounts, counts
from tuner.core.soak import Soaked, grown, slower

CARD = {"CUDA0": 24_000}


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (50.0, 40.0, 0.2),
        (50.0, 44.9, 0.102),
        (50.0, 45.1, None),
        (50.0, 47.5, None),
        (50.0, 60.0, None),
        (50.0, 0.0, 1.0),
        (None, 40.0, None),
        (0.0, 40.0, None),
        (50.0, None, None),
    ],
)
def test_more_than_a_tenth_slower_is_slower(
    before: float | None, after: float | None, part: float | None
) -> None:
    assert slower(before, after) == (None if part is None else pytest.approx(part))


@pytest.mark.parametrize(("total", "most"), [(24_000, 240), (4_000, 64), (0, 64)])
def test_pools_may_grow_by_a_hundredth_or_64_mib(total: int, most: int) -> None:
    assert grown({"CUDA0": 2000}, {"CUDA0": 2000 - most}, {"CUDA0": total}) is None
    found = grown({"CUDA0": 2000}, {"CUDA0": 2000 - most - 1}, {"CUDA0": total})
    assert found == ("CUDA0", most + 1)


def test_a_device_that_is_not_told_of_has_not_grown() -> None:
    assert grown(CARD, {}, CARD) is None
    assert grown({}, {"CUDA0": 1}, CARD) is None
    assert grown({"RPC0": 2000}, {"RPC0": 1000}, CARD) == ("RPC0", 1000)


@PROPERTY
@given(
    st.builds(
        Soaked,
        requests=counts,
        seconds=amounts,
        longest_prompt_tokens=counts,
        slot_context=st.none() | counts,
        longest_answer_tokens=counts,
        at_once=counts,
        small_before_tok_s=st.none() | amounts,
        small_after_tok_s=st.none() | amounts,
        longest_gap_s=amounts,
        host_growth_mib=st.none() | st.floats(-1e4, 1e4),
        free_mib=st.dictionaries(st.text(max_size=8), counts),
    )
)
def test_what_it_went_through_survives_json(soaked: Soaked) -> None:
    assert Soaked.from_json(soaked.to_json()) == soaked


@pytest.mark.parametrize(("spread", "part"), [(0.0, 0.12), (0.03, 0.12), (0.05, None)])
def test_where_launches_differ_much_it_takes_more(spread: float, part: float | None) -> None:
    assert slower(100.0, 88.0, spread) == (None if part is None else pytest.approx(part))
