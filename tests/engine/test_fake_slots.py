"""Pins which slot of the fake a request takes, and how fast several are at once."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.bursts import at_once
from tests.support.conversations import Conversation, Timings, numbered
from tests.support.fake_engine import FakeEngine, FakeProcess
from tests.support.real_engine import serving_for_real

TWO = ("-np", "2")
FOUR = ("-np", "4")
WITHOUT_RAM = ("--cache-ram", "0")
DRAFTS = ("--spec-type", "draft-mtp")
WORDS = "the sun and a moon are up in that big sky of our small old town by this river".split()
TEXTS = {
    "A": " ".join(WORDS),
    "B": " ".join(reversed(WORDS)),
    "C": " ".join(sorted(WORDS)),
    "A+": " ".join([*WORDS, "and", "so", "on"]),
}


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def taken(server: FakeProcess, names: str) -> list[tuple[int, bool]]:
    """Which slot each text takes, and whether it has been read before."""
    answers = [server.complete(TEXTS[name], id_slot=-1).json() for name in names.split()]
    return [(answer["id_slot"], answer["timings"]["cache_n"] > 10) for answer in answers]


# Which slot


def test_slots_that_were_never_used_are_taken_from_the_last(fake: FakeEngine) -> None:
    with fake.serving("-np", "3") as server:
        assert taken(server, "A B C") == [(2, False), (1, False), (0, False)]


def test_request_takes_the_slot_that_holds_most_of_it(fake: FakeEngine) -> None:
    with fake.serving(*TWO, *WITHOUT_RAM) as server:
        assert taken(server, "A B A B A+ B") == [
            (1, False),
            (0, False),
            (1, True),
            (0, True),
            (1, True),
            (0, True),
        ]


def test_unknown_request_takes_the_slot_that_has_waited_longest(fake: FakeEngine) -> None:
    with fake.serving(*TWO, *WITHOUT_RAM) as server:
        assert taken(server, "A B A C A") == [(1, False), (0, False), (1, True), (0, False), (1, True)]


def test_likeness_that_is_asked_for_counts(fake: FakeEngine) -> None:
    with fake.serving(*TWO, *WITHOUT_RAM, "--slot-prompt-similarity", "0.95") as server:
        assert taken(server, "A A+") == [(1, False), (0, False)]
    with fake.serving(*TWO, *WITHOUT_RAM, "--slot-prompt-similarity", "0") as server:
        assert taken(server, "A A") == [(1, False), (0, False)]


def test_short_request_in_between_takes_the_other_slot(fake: FakeEngine) -> None:
    with fake.serving(*TWO, *WITHOUT_RAM) as server:
        agent = Conversation(server, numbered("rule", 20))
        agent.say("begin")
        Conversation(server, "title").say("please")
        assert agent.say("go on")["prompt_n"] < 10


def test_agents_that_begin_at_once_read_their_common_beginning_each(fake: FakeEngine) -> None:
    with fake.always(burst={"requests": 2}).serving(*TWO) as server:
        assert _agents(server) == [{False}, {True}, {True}]


def _agents(server: FakeProcess) -> list[set[bool]]:
    """By turn: whether each of two agents finds the beginning that they have in common."""
    agents = [Conversation(server, TEXTS["A"]) for _ in range(2)]
    found = []
    for turn in range(3):
        turns = [partial(one.say, f"{turn} of agent {number}") for number, one in enumerate(agents)]
        found.append({timings["cache_n"] >= len(WORDS) for timings in at_once(turns)})
    return found


def test_agent_that_comes_later_finds_the_beginning(fake: FakeEngine) -> None:
    with fake.serving(*TWO) as server:
        for number in range(3):
            cached = Conversation(server, numbered("rule", 20)).say(f"agent{number}")["cache_n"]
            assert cached == (26 if number else 0)


# Several at once


def asked_at_once(server: FakeProcess, n: int) -> list[Timings]:
    clients = [Conversation(server, f"client {number}") for number in range(n)]
    return at_once([partial(client.say, "count", max_tokens=41) for client in clients])


def speeds(timings: list[Timings]) -> list[float]:
    return [one["predicted_per_second"] for one in timings]


@pytest.mark.parametrize(
    "do",
    [
        {"burst": {"requests": 0}},
        {"burst": {"from": 1}},
        {"company_cost": -0.1},
    ],
)
def test_senseless_rule_is_no_server_failure(fake: FakeEngine, do: dict[str, Any]) -> None:
    ended = fake.always(**do).fail()
    assert ended.returncode == 70
    assert "fake llama-server:" in ended.stderr


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_chats_in_company_share_all_slots(fake: FakeEngine, n: int) -> None:
    with fake.always(tok_s=92, burst={"requests": n}).serving(*FOUR) as server:
        assert speeds(asked_at_once(server, n)) == pytest.approx([80] * n)


def test_chat_that_comes_alone_is_as_fast_as_with_one_slot(fake: FakeEngine) -> None:
    with fake.always(tok_s=92).serving(*FOUR) as server:
        assert speeds([asked_at_once(server, 1)[0] for _ in range(3)]) == pytest.approx([92] * 3)


def test_company_counts_although_it_is_not_awaited(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path, time_scale=1).always(load_s=0, tok_s=46, prompt_tok_s=1e6)
    with fake.always(burst={"requests": 1}).serving(*FOUR) as server:

        def come_later() -> Timings:
            server.wait_for_log("processing task")
            return asked_at_once(server, 1)[0]

        first, later = at_once([lambda: asked_at_once(server, 1)[0], come_later])
    assert speeds([first, later]) == pytest.approx([46, 40])


def test_single_slot_knows_no_company(fake: FakeEngine) -> None:
    with fake.always(tok_s=92, burst={"requests": 2}).serving("-np", "1") as server:
        assert speeds(asked_at_once(server, 2)) == pytest.approx([92, 92])


@pytest.mark.parametrize(("n", "gain"), [(1, 1.724), (2, 1.167), (4, 0.605)])
def test_drafts_pay_for_one_and_not_for_four(fake: FakeEngine, n: int, gain: float) -> None:
    found = []
    for drafts in ((), DRAFTS):
        with fake.always(burst={"requests": n}).serving("-np", str(n), *drafts) as server:
            found.append(min(speeds(asked_at_once(server, n))))
    assert found[1] / found[0] == pytest.approx(gain, abs=0.001)


def test_company_may_cost_nothing(fake: FakeEngine) -> None:
    with fake.always(tok_s=92, company_cost=0, burst={"requests": 2}).serving(*FOUR) as server:
        assert speeds(asked_at_once(server, 2)) == pytest.approx([92, 92])


# The real one


@pytest.mark.server
@pytest.mark.parametrize("options", [TWO, (*TWO, *WITHOUT_RAM), ()], ids=" ".join)
def test_slots_are_those_of_the_real_one(
    llama_server_path: Path, smollm2_path: Path, fake: FakeEngine, tmp_path: Path, options: tuple[str, ...]
) -> None:
    names = "A B A B C A+ B C"
    with fake.serving("-c", "1024", *options) as server:
        ours = taken(server, names)
    log_path = tmp_path / "real.log"
    with serving_for_real(llama_server_path, smollm2_path, log_path, "-c", "1024", *options) as server:
        assert ours == taken(server, names)


@pytest.mark.server
def test_agents_that_begin_at_once_do_so_with_the_real_one(
    llama_server_path: Path, smollm2_path: Path, tmp_path: Path
) -> None:
    options = ("-c", "1024", *TWO)
    with serving_for_real(llama_server_path, smollm2_path, tmp_path / "real.log", *options) as server:
        assert _agents(server) == [{False}, {True}, {True}]
