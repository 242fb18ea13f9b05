"""When a confirmation is looked at, and what each look may err."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.confirmation.looks import ALPHA, LEVEL, alpha_at, looks, looks_until


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (1, (1,)),
        (2, (2,)),
        (3, (3,)),
        (4, (4,)),
        (5, (4, 5)),
        (8, (4, 6, 8)),
        (9, (4, 6, 8, 9)),
        (12, (4, 6, 8, 12)),
        (22, (4, 6, 8, 12, 16, 20, 22)),
    ],
)
def test_looks_are_close_at_first_and_the_last_is_after_all_blocks(
    blocks: int, expected: tuple[int, ...]
) -> None:
    assert looks(blocks) == expected


def test_without_a_block_there_is_no_look() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        looks(0)


def test_the_shares_of_eight_blocks() -> None:
    assert LEVEL == 0.95
    shares = [alpha_at(4, 8), alpha_at(6, 8, previous=4), alpha_at(8, 8, previous=6)]
    assert [float(share) for share in shares] == [0.025, 0.0125, 0.0125]


def test_a_look_that_time_made_the_last_spends_what_is_left() -> None:
    assert looks_until(5, 8, final=True) == (4, 5)
    assert float(alpha_at(5, 8, previous=4, final=True)) == 0.025
    assert float(alpha_at(3, 8, final=True)) == 0.05


@given(st.integers(1, 200))
def test_all_looks_spend_five_percent_to_the_last_digit(blocks: int) -> None:
    taken = looks_until(blocks, blocks)
    assert taken == looks(blocks)
    spent = sum(
        alpha_at(look, blocks, previous=previous) for previous, look in zip((0, *taken), taken, strict=False)
    )
    assert spent == ALPHA == Fraction(5, 100)


@given(st.data())
def test_so_do_they_when_time_runs_out(data: st.DataObject) -> None:
    blocks = data.draw(st.integers(1, 100))
    end = data.draw(st.integers(1, blocks))
    taken = looks_until(end, blocks, final=True)
    assert list(taken) == sorted(set(taken))
    assert taken[-1] == end
    shares = [
        alpha_at(look, blocks, previous=previous, final=look == end)
        for previous, look in zip((0, *taken), taken, strict=False)
    ]
    assert sum(shares) == ALPHA
    assert min(shares) > 0


@pytest.mark.parametrize("look", [0, 2, 5, 7, 9])
def test_nobody_looks_where_no_look_is_planned(look: int) -> None:
    with pytest.raises(ValueError, match="no look is planned"):
        looks_until(look, 8)


@pytest.mark.parametrize("look", [0, 9])
def test_time_cannot_run_out_outside_the_plan(look: int) -> None:
    with pytest.raises(ValueError, match="no look is planned"):
        looks_until(look, 8, final=True)


@pytest.mark.parametrize(("look", "previous"), [(4, 4), (4, 6), (9, 8), (4, -1)])
def test_looks_follow_one_another(look: int, previous: int) -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        alpha_at(look, 8, previous=previous)
