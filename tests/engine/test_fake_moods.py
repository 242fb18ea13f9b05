"""Pins what the fake does to whoever measures it: nonsense, a cold start, a hang after idling, company."""

import re
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.test_fake_completion import TEXTS, distributions, divergence
from tests.support.fake_engine import FakeEngine, FakeProcess, chat_body

EXACT = {"max_tokens": 41, "ignore_eos": True}
HANGS_S = 0.3


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def timings_of(server: FakeProcess, n: int) -> list[dict[str, Any]]:
    return [server.chat("four short words here", **EXACT).json()["timings"] for _ in range(n)]


@pytest.mark.parametrize(
    "do",
    [
        {"cold": {"requests": 1}},
        {"cold": {"requests": 1, "factor": 0}},
        {"kl": -1},
        {"idle_s": 1},
        {"idle_s": 1, "hang": "first-token"},
    ],
)
def test_senseless_rule_is_no_server_failure(fake: FakeEngine, do: dict[str, Any]) -> None:
    ended = fake.always(**do).fail()
    assert ended.returncode == 70
    assert "fake llama-server:" in ended.stderr


# Nonsense


def test_nonsense_is_no_language(fake: FakeEngine) -> None:
    with fake.always(nonsense=True, text="a b c").serving() as server:
        content = server.chat(**EXACT).json()["choices"][0]["message"]["content"]
        stopped = server.chat().json()["choices"][0]
    assert re.fullmatch(r"////( ////){40}", content)
    assert (stopped["finish_reason"], len(stopped["message"]["content"].split())) == ("stop", 64)


def test_nonsense_shows_tokens_that_have_nothing_to_do_with_the_text(fake: FakeEngine) -> None:
    with fake.serving() as server:
        plain = distributions(server)
    with fake.always(nonsense=True, kl=0).serving() as server:
        found = distributions(server)
        assert distributions(server) == found
    for one, other in zip(plain, found, strict=True):
        unseen = -12.0  # what a server does not show it holds for unlikely
        every = one.keys() | other.keys()
        mine, theirs = ({token: d.get(token, unseen) for token in every} for d in (one, other))
        assert divergence(mine, theirs) > 3
        assert len(one.keys() & other.keys()) < 6


# Cold


def test_first_chats_of_a_cold_card_are_faster(fake: FakeEngine) -> None:
    with fake.always(cold={"requests": 2, "factor": 1.5}, tok_s=40, prompt_tok_s=200).serving() as server:
        server.complete(TEXTS[0])  # warms nothing
        told = timings_of(server, 4)
    assert [t["predicted_per_second"] for t in told] == pytest.approx([60, 60, 40, 40])
    assert [t["prompt_per_second"] for t in told] == pytest.approx([300, 300, 200, 200])


def test_every_start_is_cold_again(fake: FakeEngine) -> None:
    fake.always(cold={"requests": 1, "factor": 0.5}, tok_s=40)
    for _ in range(2):
        with fake.serving() as server:
            told = timings_of(server, 2)
        assert [t["predicted_per_second"] for t in told] == pytest.approx([20, 40])


@pytest.mark.parametrize("stream", [False, True])
def test_cold_takes_as_long_as_it_says(tmp_path: Path, *, stream: bool) -> None:
    fake = FakeEngine(tmp_path, time_scale=1)
    fake.always(load_s=0, cold={"requests": 1, "factor": 4}, tok_s=100, prompt_tok_s=1000)
    with fake.serving() as server:
        first_s, second_s = (server.chat(**EXACT, stream=stream).elapsed.total_seconds() for _ in range(2))
    assert first_s >= 0.1
    assert second_s >= 0.4
    assert first_s < second_s


# Hanging after an idle gap


def hangs(server: FakeProcess, path: str = "/v1/chat/completions") -> bool:
    body = chat_body("Count.") if path.endswith("chat/completions") else {"prompt": "Count.", "n_predict": 1}
    try:
        return httpx.post(f"{server.url}{path}", json=body, timeout=HANGS_S).status_code != 200
    except httpx.ReadTimeout:
        return True


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/completion"])
def test_it_hangs_only_after_so_long_a_gap(fake: FakeEngine, path: str) -> None:
    with fake.always(hang="after-idle", idle_s=0.5).serving() as server:
        time.sleep(0.6)  # a gap before the first one is none
        assert [hangs(server) for _ in range(3)] == [False] * 3
        assert not hangs(server, "/completion")
        time.sleep(0.6)
        assert hangs(server, path)
        # The client has left: that was the end of that request, and the next one comes at once.
        assert not hangs(server, path)


def test_completions_count_for_the_gap(fake: FakeEngine) -> None:
    with fake.always(hang="after-idle", idle_s=0.5).serving() as server:
        for _ in range(3):
            time.sleep(0.3)
            assert not hangs(server, "/completion")
        assert not hangs(server)


def test_without_a_length_every_gap_is_long_enough(fake: FakeEngine) -> None:
    with fake.always(hang="after-idle").serving() as server:
        assert [hangs(server, "/completion"), hangs(server), hangs(server, "/completion")] == [
            False,
            True,
            True,
        ]


# Several at once


def test_as_many_chats_run_at_once_as_there_are_slots(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path, time_scale=1).always(load_s=0, tok_s=80, prompt_tok_s=1e6)
    answers: list[httpx.Response] = []
    with fake.serving("-np", "3") as server:

        def ask(number: int) -> None:
            answers.append(server.chat(f"Count to {number}.", **EXACT, stream=number % 2 == 0))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        log = server.log
        assert not any(slot["is_processing"] for slot in server.get("/slots").json())
    assert [answer.status_code for answer in answers] == [200] * 5
    turns = re.findall(r"slot +(launch|release)[^|]*id +(\d)", log)
    assert sorted(slot for _, slot in turns[:3]) == ["0", "1", "2"]
    running = [sum(1 if turn == "launch" else -1 for turn, _ in turns[: n + 1]) for n in range(len(turns))]
    assert (turns[0][0], max(running), running[-1]) == ("launch", 3, 0)
    assert {event["number"] for event in fake.events("request")} == {1, 2, 3, 4, 5}
