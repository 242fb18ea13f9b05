"""Places are fixed, and filler is as long as wanted and hardly ever repeats."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.prompts.passages import filler, passages, places

LENGTHS = st.integers(0, 30_000)


def test_there_are_passages_of_several_kinds_and_none_twice() -> None:
    found = passages()
    assert len(found) == len(set(found)) == 8
    assert any("def " in one for one in found)
    assert any(one.startswith("{") for one in found)
    assert any("ü" in one for one in found)
    assert all(one == one.strip() and "%%" not in one for one in found)


@pytest.mark.parametrize("passage", passages())
def test_places_continue_each_other_and_end_with_words(passage: str) -> None:
    found = places(passage)
    assert len(found) >= 7
    for shorter, longer in pairwise(found):
        assert longer.startswith(shorter)
        assert len(longer.split()) == len(shorter.split()) + 9
    for text in found:
        assert passage.startswith(text)
        assert not text[-1].isspace()
        assert passage[len(text)].isspace()


@given(st.text(alphabet="ab \n", max_size=400))
def test_any_text_has_places_at_the_ends_of_its_words(text: str) -> None:
    for n, place in enumerate(places(text)):
        assert text.startswith(place)
        assert len(place.split()) == 8 + 9 * n
        assert place.split() == text.split()[: 8 + 9 * n]


@PROPERTY
@given(LENGTHS, LENGTHS)
def test_shorter_filler_begins_longer_filler(a: int, b: int) -> None:
    assert filler(max(a, b)).startswith(filler(min(a, b)))


@PROPERTY
@given(LENGTHS)
def test_filler_is_a_line_too_long_at_most(n: int) -> None:
    text = filler(n)
    assert n <= len(text) < n + 160
    assert not text or text.endswith("\n")


def test_no_line_of_a_long_context_comes_twice() -> None:
    lines = [line.split(". ", 1)[1] for line in filler(100_000).splitlines()]
    assert len(set(lines)) == len(lines) > 1000
