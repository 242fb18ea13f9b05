"""What an engine says of a failure is kept, what it quotes is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.withheld import LEAST_CHARACTERS, spoken, withheld, without_quotes
from tuner.core.workload import Prompt

SECRET = 'My neighbour says "heliotrope",\nand I do not know what he means.'
PROMPT = Prompt("a", "user", ({"role": "user", "content": SECRET},))
PARTS = Prompt("a", "user", ({"role": "user", "content": [{"type": "text", "text": SECRET}]},))
HARMLESS = (
    "HTTP 400: request (9030 tokens) exceeds the available context size (1024 tokens), try increasing it"
)


@pytest.mark.parametrize("prompt", [PROMPT, PARTS])
def test_what_a_prompt_says_is_left_out_however_it_is_quoted(prompt: Prompt) -> None:
    said = spoken([prompt])
    assert withheld(f"HTTP 500: no {SECRET}, sorry", said) == "HTTP 500: no [left out], sorry"
    quoted = SECRET.replace('"', '\\"').replace("\n", "\\n")
    assert withheld(f'HTTP 500: {{"text": "{quoted}"}}', said) == 'HTTP 500: {"text": "[left out]"}'
    assert withheld(f"cut: {SECRET[5:30]}", said) == "cut: [left out]"


def test_what_has_nothing_of_a_prompt_stays_as_it_is() -> None:
    assert withheld(HARMLESS, spoken([PROMPT])) == HARMLESS
    assert withheld("", spoken([PROMPT])) == ""


ERROR, WARNING = "0.03.871.365 E cmn  common_chat_:", "0.03.871.366 W srv  operator(): got exception"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (
            f"{ERROR} unparsed peg-native output: Dear\nneighbour\n{WARNING}",
            f"{ERROR} unparsed peg-native output: [left out]\n{WARNING}",
        ),
        ("Failed to parse input at pos 12: Dear neighbour", "Failed to parse input at pos 12: [left out]"),
        (
            'Failed to parse messages: bad; messages = [\n{"a"}]',
            "Failed to parse messages: bad; messages = [left out]",
        ),
        ("the stream holds no JSON: Dear", "the stream holds no JSON: [left out]"),
        (HARMLESS, HARMLESS),
    ],
)
def test_what_the_engine_quotes_is_left_out_to_its_next_line(said: str, left: str) -> None:
    assert without_quotes(said) == left


texts = st.text("abc", min_size=LEAST_CHARACTERS, max_size=40)


@PROPERTY
@given(texts, st.text("abc", max_size=30), st.text("abc", max_size=30))
def test_no_stretch_of_a_prompt_is_left(secret: str, before: str, after: str) -> None:
    prompt = Prompt("a", "user", ({"role": "user", "content": secret},))
    left = withheld(before + secret + after, spoken([prompt]))
    stretches = {secret[at : at + LEAST_CHARACTERS] for at in range(len(secret) - LEAST_CHARACTERS + 1)}
    assert not any(stretch in piece for piece in left.split("[left out]") for stretch in stretches)
