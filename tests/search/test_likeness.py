"""Whether two rigs are alike, by what one configuration makes on each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.search.likeness import likeness

rates = st.lists(st.floats(0.5, 500.0), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("own", "theirs", "alike", "different"),
    [
        ([50.0], [50.0], True, False),
        ([51.0], [50.0], True, False),  # launches of one rig differ by so much
        ([40.0], [50.0], False, False),  # a single launch condemns nobody
        ([40.0, 40.0], [50.0], False, False),
        ([40.0, 40.0, 40.0], [50.0], False, True),
        ([40.0, 40.1, 39.9], [50.0, 50.2, 49.9], False, True),
        ([60.0, 60.1, 59.9], [50.0, 50.2, 49.9], False, True),  # faster does not compare either
        ([49.0, 49.1, 48.9], [50.0, 50.1, 49.9], True, False),  # 2 % are the same for what is searched
        ([47.0, 47.0, 47.0], [50.0, 50.0, 50.0], False, True),  # 6 % are not
        ([40.0, 50.0, 60.0], [45.0, 55.0, 65.0], True, False),  # rigs that vary so say nothing
        ([30.0, 50.0, 40.0], [50.0], True, False),  # our own alone may show the noise
    ],
)
def test_rigs_are_alike_within_the_noise_and_different_by_enough_launches(
    own: list[float], theirs: list[float], *, alike: bool, different: bool
) -> None:
    found = likeness(own, theirs)
    assert (found.alike, found.is_different) == (alike, different)
    assert found.launches == len(own)


@PROPERTY
@given(rates, rates)
def test_likeness_is_the_same_from_both_sides(own: list[float], theirs: list[float]) -> None:
    here, there = likeness(own, theirs), likeness(theirs, own)
    assert here.ratio == pytest.approx(1 / there.ratio)
    assert here.noise == pytest.approx(there.noise)
    if abs(here.ratio - 1) > 2 * here.noise or abs(here.ratio - 1) < here.noise / 2:  # not at the edge
        assert here.alike == there.alike


@PROPERTY
@given(rates)
def test_equal_rates_are_alike(own: list[float]) -> None:
    found = likeness(own, own)
    assert found.ratio == pytest.approx(1.0)
    assert found.alike


@PROPERTY
@given(rates, rates, st.floats(0.01, 100.0))
def test_the_unit_does_not_matter(own: list[float], theirs: list[float], factor: float) -> None:
    plain = likeness(own, theirs)
    scaled = likeness([one * factor for one in own], [one * factor for one in theirs])
    assert scaled.ratio == pytest.approx(plain.ratio)
    assert scaled.noise == pytest.approx(plain.noise)
