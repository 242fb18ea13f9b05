"""An imprint tells where two answers part, and not what they say."""

from __future__ import annotations

import json
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.imprint import Imprint
from tuner.core.workload import Prompt

PROMPT = Prompt("a", "user", ({"role": "user", "content": "What do I take against heliotrope?"},))
OTHER = Prompt("a", "user", ({"role": "user", "content": "What do I take against violets?"},))
ANSWER = "Take nothing at all, and wait until the flowers are gone."
answers = st.lists(st.sampled_from(["a", "b", "ab", "größer", "🦙", "\ud83d"]), max_size=8).map(" ".join)


def common(one: Imprint, other: Imprint) -> int:
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.words, other.words, strict=False))
    )


@PROPERTY
@given(answers | st.text(), answers | st.text())
def test_two_imprints_part_where_their_texts_do(one: str, other: str) -> None:
    words = zip(one.split(), other.split(), strict=False)
    expected = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], words))
    left, right = Imprint.of(one, PROMPT), Imprint.of(other, PROMPT)
    assert common(left, right) == expected
    assert (left.beginning == right.beginning) == (one.strip()[:3] == other.strip()[:3])


@PROPERTY
@given(st.text())
def test_an_imprint_comes_back_from_disk(text: str) -> None:
    imprint = Imprint.of(text, PROMPT)
    assert Imprint.from_json(json.loads(json.dumps(imprint.to_json()))) == imprint


def test_no_word_of_an_answer_is_in_its_imprint() -> None:
    written = json.dumps(Imprint.of(ANSWER, PROMPT).to_json())
    assert not any(word in written for word in ANSWER.split() if len(word) > 2)


def test_who_has_another_prompt_cannot_try_words() -> None:
    one, other = Imprint.of(ANSWER, PROMPT), Imprint.of(ANSWER, OTHER)
    assert not set(one.words) & set(other.words)
    assert one.beginning != other.beginning
    assert one.packed == other.packed


def test_the_same_word_later_has_another_digest() -> None:
    assert len(set(Imprint.of("the the the", PROMPT).words)) == 3


@pytest.mark.parametrize("document", [{}, {"words": None}, {"words": []}, {"words": [], "surprise": 1}])
def test_a_damaged_imprint_is_told(document: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        Imprint.from_json(document)
