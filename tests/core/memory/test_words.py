"""What is said of candidates that were not launched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, texts
from tuner.core.memory.words import NotLaunched, not_launched_sentences, size

LABELS = {"CUDA0": "CUDA0 (RTX 5080)"}


def over(device: str, *amounts_mib: int) -> list[NotLaunched]:
    return [NotLaunched(f"{device}-{number}", device, mib) for number, mib in enumerate(amounts_mib)]


@PROPERTY
@given(st.builds(NotLaunched, texts, texts, st.integers()))
def test_candidate_comes_back_from_json(row: NotLaunched) -> None:
    assert NotLaunched.from_json(json.loads(json.dumps(row.to_json()))) == row


def test_several_are_one_sentence_with_the_least_and_the_most() -> None:
    rows = over("CUDA0", 300, *[1000] * 17, 4096)
    assert not_launched_sentences(rows, LABELS) == [
        "19 not launched: they exceed CUDA0 (RTX 5080) by 300 MiB to 4.0 GiB"
    ]


def test_one_is_said_in_the_singular() -> None:
    assert not_launched_sentences(over("CUDA0", 300), LABELS) == [
        "1 not launched: it exceeds CUDA0 (RTX 5080) by 300 MiB"
    ]


def test_equal_amounts_are_said_once() -> None:
    assert not_launched_sentences(over("CUDA1", 2048, 2049), LABELS) == [
        "2 not launched: they exceed CUDA1 by 2.0 GiB"
    ]


def test_each_device_has_its_sentence() -> None:
    said = not_launched_sentences([*over("CUDA1", 5), *over("CUDA0", 7)], LABELS)
    assert [sentence.split(": ")[1] for sentence in said] == [
        "it exceeds CUDA1 by 5 MiB",
        "it exceeds CUDA0 (RTX 5080) by 7 MiB",
    ]
    assert not_launched_sentences([], LABELS) == []


def test_many_are_counted_with_a_comma() -> None:
    (sentence,) = not_launched_sentences(over("CUDA0", *[300] * 1200), LABELS)
    assert sentence.startswith("1,200 not launched")


@pytest.mark.parametrize(
    ("mib", "words"),
    [
        (0.4, "0 MiB"),
        (300, "300 MiB"),
        (1023, "1,023 MiB"),
        (1024, "1.0 GiB"),
        (4250, "4.2 GiB"),
        (-2048, "-2.0 GiB"),
    ],
)
def test_amounts_are_said_as_people_say_them(mib: float, words: str) -> None:
    assert size(mib) == words
