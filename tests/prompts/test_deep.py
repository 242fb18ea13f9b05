"""Prompts that come deep in a context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tuner.core.measurement import FIRST_ONLY
from tuner.prompts.deep import CHARACTERS_A_TOKEN, deepened, first_token_prompt
from tuner.prompts.reader import load_prompts

if TYPE_CHECKING:
    from tuner.core.workload import Prompt

PROMPTS = load_prompts("default").prompts


def text(prompt: Prompt) -> str:
    return "\n".join(str(message["content"]) for message in prompt.messages)


def test_at_depth_0_a_prompt_is_itself() -> None:
    assert deepened(PROMPTS, (0,)) == PROMPTS


def test_each_prompt_is_asked_at_each_depth_the_shallowest_first() -> None:
    found = deepened(PROMPTS[:2], (8192, 0, 1024, 0))
    assert [prompt.depth_tokens for prompt in found] == [0, 0, 1024, 1024, 8192, 8192]
    assert [prompt.id for prompt in found[2:4]] == [f"{prompt.id}@1024" for prompt in PROMPTS[:2]]
    assert len({prompt.id for prompt in found}) == len(found)


def test_all_of_one_depth_begin_alike_and_may_be_reused() -> None:
    found = deepened(PROMPTS, (4096,))
    assert all(prompt.reuses for prompt in found)
    assert not any(prompt.reuses for prompt in deepened(PROMPTS, (0,)))
    assert len({text(prompt)[: round(4096 * CHARACTERS_A_TOKEN)] for prompt in found}) == 1


def test_a_deep_prompt_still_asks_what_it_asked_and_turns_alternate() -> None:
    for shallow, deep in zip(PROMPTS, deepened(PROMPTS, (1000,)), strict=True):
        assert deep.messages[-1] == shallow.messages[-1]
        assert deep.prompt_class == shallow.prompt_class
        assert all(message["content"] in text(deep) for message in shallow.messages)
        roles = [message["role"] for message in deep.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


@pytest.mark.parametrize("tokens", [500, 8192])
def test_a_prompt_for_its_first_token_is_about_so_long_and_of_a_class_of_its_own(tokens: int) -> None:
    prompt = first_token_prompt(tokens)
    assert len(text(prompt)) == pytest.approx(tokens * CHARACTERS_A_TOKEN, rel=0.1)
    assert prompt.prompt_class == FIRST_ONLY
    assert not prompt.reuses
