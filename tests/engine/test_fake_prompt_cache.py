"""Pins what the fake's slots hold from one turn to the next, what displaces it, and what finds it again."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.conversations import Conversation, numbered, reused
from tests.support.fake_engine import FakeEngine, FakeProcess
from tests.support.real_engine import serving_for_real

ONE = ("-np", "1")
WITHOUT_RAM = (*ONE, "--cache-ram", "0")
ANSWER_HELD = 7
"""Words of an answer of 8: the last one is not decoded any more."""


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def tokens(words: int) -> int:
    return int(words * 1.3)


def agent(server: FakeProcess, name: str = "rule") -> Conversation:
    """Has said one thing: 10 words and another 10."""
    conversation = Conversation(server, numbered(name, 10))
    conversation.say(numbered(f"{name}-task", 10))
    return conversation


@pytest.mark.parametrize(
    "do", [{"cache_lost": {}}, {"cache_lost": {"from_request": 0}}, {"cache_lost": {"requests": 1}}]
)
def test_senseless_rule_is_no_server_failure(fake: FakeEngine, do: dict[str, Any]) -> None:
    ended = fake.always(**do).fail()
    assert ended.returncode == 70
    assert "fake llama-server:" in ended.stderr


# What a slot holds


def test_next_turn_reads_the_last_word_of_the_answer_and_what_is_new(fake: FakeEngine) -> None:
    with fake.serving(*ONE) as server:
        timings = agent(server).say(numbered("more", 5))
    assert timings["cache_n"] == tokens(20 + ANSWER_HELD)
    assert timings["cache_n"] + timings["prompt_n"] == tokens(20 + 8 + 5) + 1  # the whole is rounded up


def test_thoughts_do_not_come_back_so_their_answer_is_read_again(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, reasons=True).serving(*ONE) as server:
        assert agent(server).say("more")["cache_n"] == tokens(20)


def test_edited_message_leaves_what_stands_before_it(fake: FakeEngine) -> None:
    with fake.serving(*WITHOUT_RAM) as server:
        conversation = agent(server)
        conversation.change(1, f"edited {numbered('task', 9)}")
        assert conversation.say("more")["cache_n"] == tokens(10)


def test_cache_that_is_not_asked_for_is_not_used_but_filled(fake: FakeEngine) -> None:
    with fake.serving(*ONE, "--no-cache-prompt") as server:
        conversation = agent(server)
        assert conversation.say("more")["cache_n"] == 0
        assert conversation.say("more", cache_prompt=True)["cache_n"] == tokens(20 + 8 + 1 + ANSWER_HELD)
    with fake.serving(*ONE) as server:
        assert agent(server).say("more", cache_prompt=False)["cache_n"] == 0


# What displaces it


def test_second_client_displaces_the_first_without_memory_for_it(fake: FakeEngine) -> None:
    with fake.serving(*WITHOUT_RAM) as server:
        conversation = agent(server)
        agent(server, "other")
        assert conversation.say("more")["cache_n"] == 0


def test_displaced_conversations_are_found_again(fake: FakeEngine) -> None:
    with fake.serving(*ONE) as server:
        first, second = agent(server), agent(server, "other")
        for turn in range(3):
            held = 20 + 9 * turn + ANSWER_HELD
            assert [one.say("more")["cache_n"] for one in (first, second)] == [tokens(held)] * 2


def test_short_request_in_between_costs_nothing_but_itself(fake: FakeEngine) -> None:
    with fake.serving(*ONE) as server:
        conversation = agent(server)
        assert Conversation(server, "title").say("please")["cache_n"] == 0
        assert conversation.say("more")["cache_n"] == tokens(20 + ANSWER_HELD)


def test_memory_for_displaced_conversations_has_an_end(fake: FakeEngine) -> None:
    # A token of context takes an eighth of a MiB: 27 words are 4.4.
    with fake.serving(*ONE, "--cache-ram", "10") as server:
        first, second, third, _ = (agent(server, name) for name in ("first", "second", "third", "fourth"))
        assert third.say("more")["cache_n"] == tokens(20 + ANSWER_HELD)
        assert [one.say("more")["cache_n"] for one in (second, first)] == [0, 0]
    with fake.serving(*ONE, "--cache-ram", "4") as server:
        first, _ = agent(server), agent(server, "other")
        assert first.say("more")["cache_n"] == 0
    with fake.serving(*ONE, "--cache-ram", "-1") as server:
        first, _ = agent(server), agent(server, "other")
        assert first.say("more")["cache_n"] == tokens(20 + ANSWER_HELD)


def test_long_conversation_is_not_taken_out_for_a_short_part_of_it(fake: FakeEngine) -> None:
    with fake.serving(*ONE) as server:
        agent(server).say(numbered("much", 40))
        agent(server, "other")
        assert Conversation(server, numbered("rule", 10)).say("else")["cache_n"] == 0


def test_edit_keeps_both_versions(fake: FakeEngine) -> None:
    with fake.serving(*ONE) as server:
        before = agent(server)
        after = before.fork()
        after.change(1, f"edited {numbered('task', 9)}")
        assert after.say("more")["cache_n"] == tokens(10)
        assert before.say("more")["cache_n"] == tokens(20 + ANSWER_HELD)
        assert after.say("more")["cache_n"] == tokens(20 + 8 + 1 + ANSWER_HELD)


# Hybrid models


def test_hybrid_model_goes_on_where_it_ended(fake: FakeEngine) -> None:
    with fake.always(hybrid=True).serving(*WITHOUT_RAM) as server:
        assert agent(server).say("more")["cache_n"] == tokens(20 + ANSWER_HELD)


@pytest.mark.parametrize(
    ("edited", "kept", "cached"),
    [
        (5, 32, 46),  # before the last message of a user
        (4, 32, 34),  # before the end of the second prompt
        (3, 32, 28),
        (4, 3, 34),
        (4, 2, 0),  # both are of the third prompt
        (4, 0, 0),
    ],
)
def test_hybrid_model_goes_back_to_a_checkpoint(
    fake: FakeEngine, edited: int, kept: int, cached: int
) -> None:
    with fake.always(hybrid=True).serving(*WITHOUT_RAM, "--ctx-checkpoints", str(kept)) as server:
        conversation = agent(server)
        for name in ("second", "third"):
            conversation.say(numbered(name, 10))
        conversation.change(edited, f"{conversation.text(edited).split()[0]} edited")
        assert conversation.say("more")["cache_n"] == tokens(cached)


def test_hybrid_model_reads_an_answer_without_its_thoughts_from_before_the_end_of_its_prompt(
    tmp_path: Path,
) -> None:
    with FakeEngine(tmp_path, reasons=True).always(hybrid=True).serving(*ONE) as server:
        assert agent(server).say("more")["cache_n"] == tokens(20 - 4)


def test_checkpoints_are_kept_with_a_displaced_conversation(fake: FakeEngine) -> None:
    with fake.always(hybrid=True).serving(*ONE) as server:
        conversation = agent(server)
        agent(server, "other")
        conversation.change(2, "another answer")
        assert conversation.say("more")["cache_n"] == tokens(20 - 4)


# A server that loses its cache


def test_cache_may_be_lost_from_a_request_on(fake: FakeEngine) -> None:
    with fake.always(cache_lost={"from_request": 3}).serving(*ONE) as server:
        conversation = agent(server)
        found = [conversation.say("more")["cache_n"] for _ in range(3)]
    assert found == [tokens(20 + ANSWER_HELD), 0, 0]


# The real one


@pytest.mark.server
@pytest.mark.parametrize("options", [WITHOUT_RAM, ONE, ("-np", "2"), ()], ids=" ".join)
def test_small_session_reuses_as_much_as_with_the_real_one(
    llama_server_path: Path, smollm2_path: Path, fake: FakeEngine, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with fake.serving("-c", "1024", *options) as server:
        ours = _session(server)
    log_path = tmp_path / "real.log"
    with serving_for_real(llama_server_path, smollm2_path, log_path, "-c", "1024", *options) as server:
        theirs = _session(server)
    # Templates and half words take their share of the real one's tokens.
    assert ours == pytest.approx(theirs, abs=0.15)
    assert ours["extended"] > 0.8
    assert ours["found again"] > 0.8 or "0" in options


def _session(server: FakeProcess) -> dict[str, float]:
    words = "the sun and a moon are up in that big sky of our small old town by this river".split()
    agent = Conversation(server, " ".join(words))
    found = {"first": reused(agent.say(" ".join(words[::-1])))}
    found["extended"] = reused(agent.say("go on"))
    edited = agent.fork()
    edited.change(1, f"{' '.join(words[:9])} we go {' '.join(words[9:])}")
    found["edited"] = reused(edited.say("go on"))
    found["other"] = reused(Conversation(server, "Say it in few words").say(" ".join(words[1::2])))
    found["found again"] = reused(edited.say("go on"))
    found["before the edit"] = reused(agent.say("go on"))
    return found
