"""What is no language, and what does not begin as it should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core import answers
from tuner.core.imprint import Imprint
from tuner.prompts.passages import passages

PROSE = passages()[0]
CHINESE = "今天下午的会议改到三点。请大家提前十分钟到场。并带上上周的记录。如果有人不能来就请告诉我。谢谢。"
NAMES = ("one", "two", "three")
REFERENCE = {"one": "The river is low.", "two": "A mill stood here.", "three": "It was closed."}


def of(text: str) -> Imprint:
    return Imprint.of(text, None)


def all_of(texts: dict[str, str]) -> dict[str, Imprint]:
    return {name: of(text) for name, text in texts.items()}


def garbage(text: str, beside: str | None = None) -> str | None:
    return answers.garbage(of(text), None if beside is None else of(beside))


def why_nonsense(texts: dict[str, str], reference: dict[str, str], *, greedy: bool) -> str | None:
    return answers.why_nonsense(all_of(texts), all_of(reference), greedy=greedy)


def agreement(texts: dict[str, str], reference: dict[str, str]) -> float | None:
    return answers.agreement(all_of(texts), all_of(reference))


def each(text: str) -> dict[str, str]:
    return dict.fromkeys(NAMES, text)


@pytest.mark.parametrize("text", [*passages(), CHINESE, PROSE[:40]])
def test_language_is_no_garbage(text: str) -> None:
    assert garbage(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("G" * 60, "repeats itself"),
        ("the the " * 60, "repeats itself"),
        ("!" * 60, "0% of its characters are letters or digits"),
        ("?/&%!=) (;:_,.-#+*~<>|" * 4, "letters or digits"),
        ("\N{REPLACEMENT CHARACTER}x" * 40, "50% of its characters are no text"),
        ("\x01\x02abc" * 40, "40% of its characters are no text"),
        (" \n" * 40, "letters or digits"),
    ],
)
def test_garbage_is_told_by_what_it_is(text: str, why: str) -> None:
    said = garbage(text)
    assert said is not None
    assert why in said


@pytest.mark.parametrize("text", ["G" * 60, "!" * 60, "\N{REPLACEMENT CHARACTER}x" * 40])
def test_a_reference_that_is_odd_in_the_same_way_excuses_it(text: str) -> None:
    assert garbage(text, text) is None
    assert garbage(text, PROSE) is not None


def test_short_answers_say_nothing() -> None:
    assert garbage("G" * 39) is None
    assert garbage("") is None
    assert garbage("", "Yes.") is None


def test_nothing_where_the_reference_says_much_is_garbage() -> None:
    assert garbage("", PROSE) == garbage("\n", PROSE) == "nothing can be seen of it"


@PROPERTY
@given(st.text(), st.none() | st.text())
def test_any_text_can_be_judged_and_is_as_good_as_itself(text: str, beside: str | None) -> None:
    garbage(text, beside)
    assert garbage(text, text) is None


def test_most_of_the_answers_have_to_be_garbage() -> None:
    assert why_nonsense({**each(PROSE), "one": "G" * 60}, each(PROSE), greedy=True) is None
    found = why_nonsense({**each("G" * 60), "one": PROSE}, each(PROSE), greedy=True)
    assert found == "2 of 3 answers are no language: it repeats itself"


def test_greedy_answers_none_of_which_begins_as_it_should_are_nonsense() -> None:
    other = {"one": "Yes, it is.", "two": "No mill.", "three": "Perhaps."}
    found = why_nonsense(other, REFERENCE, greedy=True)
    assert found == "none of 3 answers begins as the reference's"
    assert why_nonsense(other, REFERENCE, greedy=False) is None
    assert why_nonsense({**other, "two": "A mill fell."}, REFERENCE, greedy=True) is None


def test_answers_of_nothing_do_not_begin_as_they_should() -> None:
    assert why_nonsense(each(""), REFERENCE, greedy=True) is not None


def test_two_answers_may_begin_otherwise_by_chance() -> None:
    other = {"one": "Yes, it is.", "two": "No mill."}
    assert why_nonsense(other, REFERENCE, greedy=True) is None


def test_answers_without_spaces_need_not_be_the_same_to_their_end() -> None:
    reference = {name: f"{first}{CHINESE}" for name, first in zip(NAMES, "甲乙丙", strict=True)}
    other = {name: f"{text[:12]}好{text[13:]}" for name, text in reference.items()}
    assert why_nonsense(other, reference, greedy=True) is None


def test_without_a_reference_only_garbage_is_nonsense() -> None:
    assert why_nonsense(REFERENCE, {}, greedy=True) is None
    assert why_nonsense({}, REFERENCE, greedy=True) is None
    assert why_nonsense(each("G" * 60), {}, greedy=False) is not None


def test_agreement_is_the_part_before_the_first_word_that_differs() -> None:
    other = {"one": "The river was low.", "two": "A mill stood here.", "four": "Who knows?"}
    assert agreement(other, REFERENCE) == pytest.approx((2 / 4 + 1) / 2)
    assert agreement(REFERENCE, REFERENCE) == 1.0
    assert agreement({}, REFERENCE) is None
    assert agreement(each(""), REFERENCE) == 0.0
