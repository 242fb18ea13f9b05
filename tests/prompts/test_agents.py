"""The session that agents have."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tuner.core.session import Conversations, Script
from tuner.prompts.agents import (
    CHARACTERS_A_TOKEN,
    PREFIX_TOKENS,
    SECOND_CLIENT,
    TURNS_TOKENS,
    agent_session,
)

if TYPE_CHECKING:
    from tuner.core.workload import Prompt


def characters(prompt: Prompt) -> int:
    return sum(len(str(message["content"])) for message in prompt.messages)


def played(script: Script, answer: str = "Done.") -> list[Prompt]:
    """All requests of a session whose answers are always the same."""
    conversations = Conversations()
    found = []
    for steps in script.rounds:
        for step in steps:
            found.append(conversations.prompt(step))
            conversations.answered(step, answer)
    return found


def test_a_session_is_a_prefix_eight_turns_one_of_them_edited_and_a_second_client() -> None:
    prompts = played(agent_session(1))
    kinds = [prompt.prompt_class for prompt in prompts]
    assert kinds == ["start", *["turn"] * 4, "other", *["turn"] * 2, "edit", "turn"]
    assert kinds.count("turn") + kinds.count("edit") == len(TURNS_TOKENS) == 8
    assert prompts[kinds.index("other")].id == f"{SECOND_CLIENT}/question"
    assert 10_000 <= PREFIX_TOKENS <= 20_000
    assert all(200 <= tokens <= 2000 for tokens in TURNS_TOKENS)
    assert characters(prompts[0]) == pytest.approx(PREFIX_TOKENS * CHARACTERS_A_TOKEN, rel=0.05)


def test_each_turn_goes_on_from_the_one_before_but_for_the_edited_one() -> None:
    prompts = [prompt for prompt in played(agent_session(1)) if prompt.id.startswith("agent-1")]
    for before, after in pairwise(prompts):
        goes_on = after.messages[: len(before.messages)] == before.messages
        assert goes_on == (after.prompt_class != "edit")
    edited = next(prompt for prompt in prompts if prompt.prompt_class == "edit")
    original = next(prompt for prompt in prompts if prompt.id == "agent-1/turn-4")
    assert edited.id == "agent-1/turn-4-edited"
    assert edited.messages[:-1] == original.messages[:-1]
    assert edited.messages[-1] != original.messages[-1]


def test_agents_share_their_prefix_and_nothing_else() -> None:
    script = agent_session(3)
    for steps in script.rounds:
        others = [step for step in steps if step.client != SECOND_CLIENT]
        assert len(others) in {0, 3}
        last = [step.messages[-1]["content"] for step in others]
        assert len(set(last)) == len(last)
    starts = script.rounds[0]
    assert len({step.messages[0]["content"] for step in starts}) == 1
    assert len({prompt.id for prompt in played(script)}) == script.n_requests


def test_roles_alternate_after_the_system() -> None:
    for prompt in played(agent_session(2)):
        roles = [message["role"] for message in prompt.messages]
        own = roles[1:] if roles[0] == "system" else roles
        assert own == (["user", "assistant"] * len(own))[: len(own)]


def test_a_session_is_always_the_same_and_another_one_for_more_agents() -> None:
    assert agent_session(2) == agent_session(2)
    assert agent_session(1).digest != agent_session(2).digest


def test_the_longest_conversation_is_reckoned_on_the_safe_side() -> None:
    script = agent_session(1)
    longest = max(characters(prompt) for prompt in played(script, ""))
    assert longest / CHARACTERS_A_TOKEN <= script.longest_tokens
    assert longest / CHARACTERS_A_TOKEN >= 0.8 * script.longest_tokens
    answers = max(
        sum(message["role"] == "assistant" for message in prompt.messages) for prompt in played(script)
    )
    assert answers + 1 <= script.most_answers
