"""What is said over HTTP: forms against a mocked transport, streams and their trouble against the fake."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.fake_engine import FakeEngine
from tuner.core.workload import Prompt, PromptSet, Sampling, Thinking, Workload
from tuner.engine.client import DEFAULT_SAMPLING, Client, Deadlines, RequestFailed, request_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.fake_engine import FakeProcess
    from tuner.core.measurement import Sample

PROMPT = Prompt("p1", "code", ({"role": "user", "content": "Write a sort."},))
WORKLOAD = Workload(PromptSet("set", PROMPT, (PROMPT,), "digest"), 9, Sampling(), Thinking.AUTO, seed=7)
PATIENT = Deadlines(first_token_s=5, between_tokens_s=5, whole_s=10)
TIMINGS = {"prompt_n": 12, "prompt_ms": 6.5, "predicted_n": 9, "predicted_ms": 100.0}


def mocked(answer: Callable[[httpx.Request], httpx.Response]) -> Client:
    return Client("http://server", "key", transport=httpx.MockTransport(answer))


def stream(*events: object, end: str = "data: [DONE]\n\n") -> Client:
    """A server that answers with these events."""
    lines = [event if isinstance(event, str) else f"data: {json.dumps(event)}" for event in events]
    return mocked(lambda _: httpx.Response(200, text="".join(f"{line}\n\n" for line in lines) + end))


def delta(**content: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": content}]}


def ask(client: Client, deadlines: Deadlines = PATIENT, *, max_tokens: int = 9) -> Sample:
    with client:
        return client.chat(PROMPT, WORKLOAD, max_tokens=max_tokens, deadlines=deadlines)


def failure(client: Client, deadlines: Deadlines = PATIENT) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        ask(client, deadlines)
    return caught.value


# --- what is asked


def test_request_states_everything_that_an_answer_depends_on() -> None:
    assert request_body(PROMPT, WORKLOAD, max_tokens=9) == {
        "messages": [{"role": "user", "content": "Write a sort."}],
        "max_tokens": 9,
        "ignore_eos": True,
        "cache_prompt": False,
        "seed": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        **DEFAULT_SAMPLING,
    }


def test_samplers_of_the_workload_replace_ours_and_leave_the_rest_stated() -> None:
    sampling = Sampling(MappingProxyType({"temperature": 0.6, "xtc_probability": 0.1}))
    body = request_body(PROMPT, replace(WORKLOAD, sampling=sampling), max_tokens=9)
    assert (body["temperature"], body["xtc_probability"], body["top_k"]) == (0.6, 0.1, 40)


@pytest.mark.parametrize(
    ("thinking", "field"),
    [
        (Thinking.AUTO, None),
        (Thinking.ON, {"enable_thinking": True}),
        (Thinking.OFF, {"enable_thinking": False}),
    ],
)
def test_thinking_is_said_to_the_template_or_not_at_all(
    thinking: Thinking, field: dict[str, bool] | None
) -> None:
    body = request_body(PROMPT, replace(WORKLOAD, thinking=thinking), max_tokens=9)
    assert body.get("chat_template_kwargs") == field


def test_every_request_carries_the_key() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200, json={})

    with mocked(answer) as client:
        client.is_ready()
        client.props()
        client.slots()
    assert seen == ["Bearer key"] * 3


# --- readiness, /props and /slots


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False), (404, False)])
def test_ready_is_what_health_says(status: int, *, ready: bool) -> None:
    with mocked(lambda _: httpx.Response(status)) as client:
        assert client.is_ready() == ready


def test_unbound_port_is_not_ready() -> None:
    with Client("http://127.0.0.1:1", "key") as client:
        assert not client.is_ready()


def test_proxy_of_the_user_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with FakeEngine(tmp_path).serving() as server, Client(server.url, "key") as client:
        assert client.is_ready()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(401, text="Invalid API Key"), "/props: HTTP 401: Invalid API Key"),
        (httpx.Response(200, text='{"cut": '), "/props answered no JSON"),
        (httpx.Response(200, json=[1]), r"/props answered \[1\], not an object"),
    ],
)
def test_props_that_are_none_are_quoted(answer: httpx.Response, said: str) -> None:
    with mocked(lambda _: answer) as client, pytest.raises(RequestFailed, match=said) as caught:
        client.props()
    assert not caught.value.silent


def test_props_that_never_come_are_a_silence() -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("", request=request)

    with mocked(hang) as client, pytest.raises(RequestFailed, match="/props: ReadTimeout") as caught:
        client.props()
    assert caught.value.silent


@pytest.mark.parametrize(
    ("answer", "slots"),
    [
        (httpx.Response(200, json=[{"id": 0, "speculative": True}, "?"]), [{"id": 0, "speculative": True}]),
        (httpx.Response(200, json={"not": "a list"}), []),
        (httpx.Response(501, json={"error": {}}), []),
    ],
)
def test_slots_are_read_as_far_as_the_server_tells(answer: httpx.Response, slots: list[object]) -> None:
    with mocked(lambda _: answer) as client:
        assert client.slots() == slots


# --- what a stream holds


def test_sample_is_the_servers_timings_and_our_clock() -> None:
    timings = {**TIMINGS, "cache_n": 3, "draft_n": 8, "draft_n_accepted": 5}
    sample = ask(
        stream(
            delta(role="assistant", content=None),
            delta(content="a"),
            delta(content="b"),
            {"timings": timings},
        )
    )
    assert (sample.prompt_id, sample.prompt_class, sample.text) == ("p1", "code", "ab")
    assert (sample.cache_n, sample.prompt_n, sample.prompt_ms) == (3, 12, 6.5)
    assert (sample.predicted_n, sample.predicted_ms) == (9, 100.0)
    assert (sample.draft_n, sample.draft_n_accepted) == (8, 5)
    assert 0 < sample.ttft_s <= sample.wall_s


def test_drafts_are_unknown_where_nothing_is_said_of_them() -> None:
    sample = ask(stream(delta(content="a"), {"choices": [], "timings": TIMINGS}))
    assert (sample.draft_n, sample.draft_n_accepted, sample.cache_n) == (None, None, 0)


def test_comments_and_events_without_text_are_no_tokens() -> None:
    sample = ask(stream(": ping", "event: x", {}, {"choices": [7]}, delta(content="a"), {"timings": TIMINGS}))
    assert sample.text == "a"


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (stream(delta(content="a")), "ended without timings"),
        (stream(end=""), "ended without timings"),
        (stream("data: {cut"), "the stream holds no JSON: {cut"),
        (stream("data: [1]"), r"the stream holds no object: \[1\]"),
        (stream({"error": {"code": 500, "message": "boom"}}), "the server reports: .*boom"),
        (stream({"timings": {**TIMINGS, "predicted_n": None}}), "timings are not understood"),
        (stream({"timings": {"prompt_n": 1}}), "timings are not understood"),
        (stream({"timings": "fast"}), "timings are not understood"),
        (mocked(lambda _: httpx.Response(400, text="too long")), "HTTP 400: too long"),
    ],
)
def test_stream_that_is_no_answer_is_quoted(client: Client, said: str) -> None:
    failed = failure(client)
    assert not failed.silent
    with pytest.raises(RequestFailed, match=said):
        raise failed


# --- deadlines


def slowly(*lines: str, pause_s: float) -> Client:
    def produce() -> Iterator[bytes]:
        for line in lines:
            time.sleep(pause_s)
            yield f"{line}\n\n".encode()

    return mocked(lambda _: httpx.Response(200, content=produce()))


TOKEN = f"data: {json.dumps(delta(content='a'))}"


@pytest.mark.parametrize(
    ("lines", "deadlines", "waited"),
    [
        # pings keep the connection alive, not our patience
        ([": ping"] * 20, Deadlines(first_token_s=0.05, between_tokens_s=9, whole_s=9), "first token"),
        ([TOKEN, *[": ping"] * 20], Deadlines(9, between_tokens_s=0.05, whole_s=9), "next token"),
        ([TOKEN] * 20, Deadlines(first_token_s=9, between_tokens_s=9, whole_s=0.1), "next token"),
    ],
)
def test_each_deadline_ends_the_request(lines: list[str], deadlines: Deadlines, waited: str) -> None:
    failed = failure(slowly(*lines, pause_s=0.02), deadlines)
    assert failed.silent
    assert f"no sign of the {waited}" in str(failed)


# --- a server


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def client_of(server: FakeProcess, key: str = "key") -> Client:
    return Client(server.url, key)


def test_real_stream_is_timed_by_both_clocks(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path, time_scale=1).always(tok_s=80, prompt_tok_s=100, load_s=0)
    with fake.serving("--api-key", "key") as server:
        sample = ask(client_of(server))
    assert sample.predicted_n == 9
    assert sample.predicted_ms == pytest.approx(100)
    assert sample.ttft_s >= sample.prompt_ms / 1000
    assert sample.wall_s >= (sample.prompt_ms + sample.predicted_ms) / 1000
    assert len(sample.text.split()) == 9


def test_thought_is_the_first_token(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path, time_scale=1, reasons=True).always(tok_s=20, load_s=0)
    with fake.serving() as server:
        sample = ask(client_of(server))
    assert sample.wall_s - sample.ttft_s > 0.2  # the half of the answer that is no thought takes 200 ms
    assert len(sample.text.split()) == 9


def test_many_requests_in_a_row_each_get_an_answer(fake: FakeEngine) -> None:
    """The server closes connections that it advertised as alive: a kept one would break the next."""
    with fake.serving() as server, client_of(server) as client:
        for _ in range(30):
            client.chat(PROMPT, WORKLOAD, max_tokens=2, deadlines=PATIENT)
    assert len(fake.events("request")) == 30


def test_wrong_key_is_refused(fake: FakeEngine) -> None:
    with fake.serving("--api-key", "other") as server:
        assert "HTTP 401" in str(failure(client_of(server)))


def test_cut_json_is_no_answer(fake: FakeEngine) -> None:
    with fake.always(garbage=True).serving() as server:
        failed = failure(client_of(server))
    assert "holds no JSON" in str(failed)
    assert not failed.silent


def test_connection_that_ends_in_the_middle_is_broken_not_silent(fake: FakeEngine) -> None:
    with fake.always(half_close=True).serving() as server:
        failed = failure(client_of(server))
    assert "the connection broke" in str(failed)
    assert not failed.silent


def test_server_that_dies_in_the_middle_breaks_the_connection(fake: FakeEngine) -> None:
    with fake.always(signal=9, die_in="request:1").serving() as server:
        failed = failure(client_of(server))
    assert not failed.silent


@pytest.mark.parametrize(
    ("hang", "deadlines", "waited"),
    [
        ("first-token", Deadlines(first_token_s=0.2, between_tokens_s=5, whole_s=5), "first token"),
        ("mid-stream", Deadlines(first_token_s=0.3, between_tokens_s=0.2, whole_s=5), "next token"),
    ],
)
def test_server_that_says_nothing_more_is_silent(
    fake: FakeEngine, hang: str, deadlines: Deadlines, waited: str
) -> None:
    with fake.always(hang=hang).serving() as server:
        start = time.monotonic()
        failed = failure(client_of(server), deadlines)
        assert time.monotonic() - start < 2
    assert failed.silent
    assert f"no sign of the {waited}" in str(failed)
