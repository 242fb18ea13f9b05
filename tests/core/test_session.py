"""Conversations that grow, and what a server should have kept of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.trials import a_sample
from tuner.core.session import Conversations, Script, Step, why_cache_lost

if TYPE_CHECKING:
    from tuner.core.measurement import Sample


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def step(client: str, name: str, *texts: str, keeps: int | None = None) -> Step:
    return Step(client, name, "turn", tuple(map(said, texts)), keeps)


def turn(name: str, cache_n: int, prompt_n: int = 500) -> Sample:
    return a_sample(prompt_id=f"agent-1/{name}", cache_n=cache_n, prompt_n=prompt_n)


def test_a_turn_is_everything_that_was_said_and_answered_before_it() -> None:
    conversations = Conversations()
    first = conversations.prompt(step("a", "one", "hello"))
    assert (first.id, first.reuses) == ("a/one", True)
    conversations.answered(step("a", "one"), "yes?")
    conversations.prompt(step("b", "one", "who are you?"))
    second = conversations.prompt(step("a", "two", "add this"))
    assert [message["content"] for message in second.messages] == ["hello", "yes?", "add this"]
    assert first.messages == (said("hello"),)


def test_an_edited_message_takes_back_what_came_after_it() -> None:
    conversations = Conversations()
    for name in ("one", "two", "three"):
        conversations.prompt(step("a", name, name))
        conversations.answered(step("a", name), f"answer to {name}")
    edited = conversations.prompt(step("a", "two-edited", "two, but otherwise", keeps=2))
    assert [message["content"] for message in edited.messages] == [
        "one",
        "answer to one",
        "two, but otherwise",
    ]


def test_a_server_that_keeps_what_the_reference_kept_lost_nothing() -> None:
    kept = [turn("start", 0, 12_000), turn("turn-1", 12_100), turn("turn-2", 13_000)]
    assert why_cache_lost(kept, kept) is None
    assert why_cache_lost([turn("turn-1", 12_000)], kept) is None  # a text is cut a little otherwise
    assert why_cache_lost([turn("turn-1", 14_000)], kept) is None
    assert why_cache_lost([turn("turn-9", 0)], kept) is None  # nothing to compare with
    assert why_cache_lost(kept, []) is None


def test_the_first_turn_that_was_read_again_is_named() -> None:
    kept = [turn("turn-1", 12_100), turn("turn-2", 13_000)]
    assert why_cache_lost([turn("turn-1", 12_100), turn("turn-2", 0, 13_500)], kept) == (
        "cache-lost at agent-1/turn-2: 13,000 tokens were read again that the reference reused "
        "(0 of 13,500 came from the cache, there 13,000)"
    )


@pytest.mark.parametrize(("kept", "got", "lost"), [(1000, 743, True), (1000, 744, False), (200, 0, False)])
def test_a_little_that_is_read_again_is_no_loss(kept: int, got: int, lost: bool) -> None:  # noqa: FBT001
    assert (why_cache_lost([turn("turn-1", got)], [turn("turn-1", kept)]) is not None) == lost


def test_what_a_session_needs_is_its_text_and_its_answers() -> None:
    script = Script(((step("a", "one"), step("b", "one")), (step("a", "two"),)), "d", 12_000, 9)
    assert script.n_requests == 3
    assert script.needed_tokens(100) == 12_900
