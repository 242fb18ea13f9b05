"""Pins the fake's raw completions: what would come next after a text, and how many tokens a text is."""

import json
import math
import signal
import statistics
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fake_engine import FakeEngine, FakeProcess
from tests.support.real_engine import serving_for_real

TEXT = "The two cards share the work and the"
TEXTS = tuple(f"{TEXT} card number {number} is" for number in range(15))
Q8_CACHE = ("-ctk", "q8_0", "-ctv", "q8_0")


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def shown(answer: httpx.Response) -> dict[int, float]:
    """Logarithms of probabilities, by token."""
    rows = answer.json()["completion_probabilities"][0]["top_logprobs"]
    return {row["id"]: row["logprob"] for row in rows}


def distributions(server: FakeProcess) -> list[dict[int, float]]:
    return [shown(server.complete(text)) for text in TEXTS]


def divergence(plain: dict[int, float], other: dict[int, float]) -> float:
    """Both know the same tokens; what they do not show is one more."""
    assert plain.keys() == other.keys()
    rest, other_rest = (1 - sum(map(math.exp, d.values())) for d in (plain, other))
    told = sum(math.exp(logarithm) * (logarithm - other[token]) for token, logarithm in plain.items())
    return told + rest * math.log(rest / other_rest)


# The answer


def test_answer_has_the_engine_s_fields(fake: FakeEngine) -> None:
    with fake.always(prompt_tok_s=200).serving("-np", "1") as server:
        body = server.complete(TEXT).json()
        log = server.log
    (position,) = body["completion_probabilities"]
    assert list(position) == ["id", "token", "bytes", "logprob", "top_logprobs"]
    first = position["top_logprobs"][0]
    assert {name: position[name] for name in first} == first
    assert bytes(first["bytes"]).decode() == first["token"] == body["content"]
    assert (body["tokens_evaluated"], body["tokens_predicted"], body["id_slot"]) == (11, 1, 0)
    timings = body["timings"]
    assert (timings["cache_n"], timings["prompt_n"], timings["predicted_n"]) == (0, 11, 1)
    assert timings["prompt_ms"] == pytest.approx(55)
    assert "| prompt eval time =      55.00 ms /    11 tokens" in log


@pytest.mark.parametrize("text", TEXTS[:3])
def test_distribution_falls_and_holds_most_of_the_mass(fake: FakeEngine, text: str) -> None:
    with fake.serving() as server:
        logarithms = list(shown(server.complete(text)).values())
    assert len(logarithms) == 60
    assert logarithms == sorted(logarithms, reverse=True)
    assert 0.1 < math.exp(logarithms[0]) < 0.6
    assert sum(map(math.exp, logarithms)) == pytest.approx(0.98)


def test_so_many_are_shown_as_asked_for(fake: FakeEngine) -> None:
    with fake.serving() as server:
        every = shown(server.complete(TEXT))
        assert shown(server.complete(TEXT, n_probs=3)) == dict(list(every.items())[:3])
        assert "completion_probabilities" not in server.complete(TEXT, n_probs=0).json()


def test_same_text_is_followed_by_the_same_on_every_plain_server(fake: FakeEngine, tmp_path: Path) -> None:
    with fake.serving("-ts", "3,1") as server:
        before = distributions(server)
        assert distributions(server) == before
    with FakeEngine(tmp_path, build="9246").serving("-sm", "none", "-c", "4096") as server:
        assert distributions(server) == before
    assert len({max(one, key=one.__getitem__) for one in before}) == len(before)


# How far it is off


@pytest.mark.parametrize(
    ("arguments", "kl"),
    [
        (("-sm", "tensor"), 1e-4),
        (("-ctk", "q8_0"), 3e-3),
        (("-ctv", "q8_0"), 3e-3),
        (("-sm", "tensor", *Q8_CACHE), 3.1e-3),
        (("-ctk", "q4_0", "-ctv", "q8_0"), 2.5e-2),
    ],
)
def test_options_move_it_a_little(fake: FakeEngine, arguments: tuple[str, ...], kl: float) -> None:
    with fake.serving() as server:
        plain = distributions(server)
    with fake.serving(*arguments) as server:
        found = distributions(server)
        assert found == distributions(server)
    nats = [divergence(one, other) for one, other in zip(plain, found, strict=True)]
    assert all(0.5 * kl <= one <= 2 * kl for one in nats)
    assert statistics.median(nats) == pytest.approx(kl, rel=0.4)
    assert max(nats) > 1.3 * min(nats)


def test_rule_says_how_far_it_is_off(fake: FakeEngine) -> None:
    fake.when({"sm": "tensor"}, kl=0).when({"ctk": "q8_0"}, kl=2.0)
    with fake.serving() as server:
        plain = distributions(server)
    with fake.serving("-sm", "tensor") as server:
        assert distributions(server) == plain
    with fake.serving(*Q8_CACHE) as server:
        found = distributions(server)
    nats = [divergence(one, other) for one, other in zip(plain, found, strict=True)]
    assert all(1 <= one <= 4 for one in nats)


# Its cost


def test_longer_text_costs_only_what_is_new(fake: FakeEngine) -> None:
    ten = " ".join(f"word{number}" for number in range(10))
    with fake.serving("-np", "1") as server:
        read = [
            (body["timings"]["cache_n"], body["timings"]["prompt_n"], body["tokens_evaluated"])
            for body in (
                server.complete(ten).json(),
                server.complete(f"{ten} {ten}").json(),
                server.complete(f"{ten} {ten}").json(),
                server.complete(f"{ten} {ten}", cache_prompt=False).json(),
            )
        ]
        after_another = server.complete("other words").json()["timings"]["cache_n"]
    assert read == [(0, 13, 13), (13, 13, 26), (25, 1, 26), (0, 26, 26)]
    assert after_another == 0


def test_it_takes_as_long_as_it_says(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, time_scale=1).always(load_s=0, prompt_tok_s=100).serving() as server:
        answer = server.complete(TEXT)
    assert answer.elapsed.total_seconds() >= 0.11


def test_slot_may_be_chosen(fake: FakeEngine) -> None:
    with fake.serving("-np", "2", "--cache-ram", "0") as server:
        assert server.complete(TEXT, id_slot=1).json()["id_slot"] == 1
        assert server.complete(TEXT, id_slot=1).json()["timings"]["cache_n"] == 10
        assert server.complete(TEXT, id_slot=0).json()["timings"]["cache_n"] == 0
        for number in (-1, 7):
            assert server.complete(TEXT, id_slot=number).json()["id_slot"] == 0
        server.chat(id_slot=1)
        assert server.complete(TEXT, id_slot=1).json()["timings"]["cache_n"] == 0


# What it counts for


def test_it_is_a_request_of_its_own_kind(fake: FakeEngine) -> None:
    with fake.serving() as server:
        for _ in range(2):
            server.complete(TEXT)
        server.chat()
    requests = [(event["path"], event["number"]) for event in fake.events("request")]
    assert requests == [("/completion", 1), ("/completion", 2), ("/v1/chat/completions", 1)]
    assert fake.events("request")[0]["body"]["prompt"] == TEXT


@pytest.mark.parametrize("oom", [None, {"stage": "runtime"}])
def test_death_is_due_at_chats_or_at_completions(fake: FakeEngine, oom: object) -> None:
    with fake.always(die_in="request:1", oom=oom).serving() as server:
        assert server.complete(TEXT).status_code == 200
        with pytest.raises(httpx.TransportError):
            server.chat()
    with fake.always(die_in="completion:2").serving() as server:
        for _ in range(2):
            server.chat()
        server.complete(TEXT)
        with pytest.raises(httpx.TransportError):
            server.complete(TEXT)
        assert server.wait() == -signal.SIGABRT


@pytest.mark.parametrize(
    ("hang", "hangs"), [("completion", True), ("first-token", True), ("mid-stream", False)]
)
def test_it_may_hang(fake: FakeEngine, hang: str, *, hangs: bool) -> None:
    with fake.always(hang=hang).serving() as server:
        if not hangs:
            assert server.complete(TEXT).status_code == 200
            return
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/completion", json={"prompt": TEXT, "n_predict": 1}, timeout=0.2)


def test_hang_of_completions_spares_the_chats(fake: FakeEngine) -> None:
    with fake.always(hang="completion").serving() as server:
        assert server.chat().status_code == 200


def test_answers_may_be_broken(fake: FakeEngine) -> None:
    with fake.always(garbage=["/completion", "/tokenize"]).serving() as server:
        for answer in (server.complete(TEXT), server.post("/tokenize", {"content": TEXT})):
            with pytest.raises(json.JSONDecodeError):
                answer.json()
        assert server.chat().json()
    fake.always(garbage=False, half_close=True)
    with fake.serving() as server, pytest.raises(httpx.RemoteProtocolError):
        server.complete(TEXT)


# Refusals


def test_text_beyond_the_context_is_refused(fake: FakeEngine) -> None:
    with fake.serving("-c", "512", "-np", "2") as server:
        assert server.complete("word " * 196).status_code == 200
        answer = server.complete("word " * 197)
        assert server.chat("word " * 197).json() == answer.json()
    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "code": 400,
        "message": "request (257 tokens) exceeds the available context size (256 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 257,
        "n_ctx": 256,
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", b"{bad"),
        ("/completion", b"{}"),
        ("/completion", b"[]"),
        ("/completion", b'{"prompt":"a"}'),
        ("/completion", b'{"prompt":"a","n_predict":2}'),
        ("/completion", b'{"prompt":[1],"n_predict":1}'),
        ("/completion", b'{"prompt":"a","n_predict":1,"stream":true}'),
        ("/completion", b'{"prompt":"a","n_predict":1,"n_probs":"x"}'),
        ("/tokenize", b"{bad"),
        ("/tokenize", b'{"content":5}'),
    ],
)
def test_senseless_request_is_refused(fake: FakeEngine, path: str, body: bytes) -> None:
    with fake.serving() as server, server.client() as client:
        answer = client.post(path, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_key_is_asked_for_and_a_router_does_not_answer(fake: FakeEngine) -> None:
    with fake.serving("--api-key", "k") as server:
        assert server.complete(TEXT).status_code == 401
        assert server.post("/tokenize", {"content": TEXT}).status_code == 401
    with fake.always(router=True).serving() as server:
        assert server.complete(TEXT).status_code == 400
        assert server.get("/completion").status_code == 400
    with fake.always(router=False).serving() as server:
        assert server.get("/completion").status_code == 404


# Tokens


@pytest.mark.parametrize("words", [1, 2, 7, 10, 100])
def test_tokens_are_counted_as_in_a_prompt(fake: FakeEngine, words: int) -> None:
    text = " ".join(f"word{number}" for number in range(words))
    with fake.serving() as server:
        tokens = server.post("/tokenize", {"content": text}).json()["tokens"]
        assert len(tokens) == server.complete(text).json()["timings"]["prompt_n"]
        longer = server.post("/tokenize", {"content": f"{text} and more"}).json()["tokens"]
        assert longer[: words - 1] == tokens[: words - 1]
        assert server.post("/tokenize", {"content": ""}).json() == {"tokens": []}
        assert server.post("/tokenize", {}).json() == {"tokens": []}
    assert all(0 <= token < 49152 for token in tokens)
    assert [event["path"] for event in fake.events("request")] == ["/completion"]


# The real one


@pytest.mark.server
def test_forms_are_those_of_the_real_one(
    llama_server_path: Path, smollm2_path: Path, fake: FakeEngine, tmp_path: Path
) -> None:
    with fake.serving("-c", "1024", "-np", "1") as server:
        ours = _asked(server)
    options = "-c 1024 -np 1".split()
    with serving_for_real(llama_server_path, smollm2_path, tmp_path / "real.log", *options) as server:
        theirs = _asked(server)
    assert ours == theirs


def _asked(server: FakeProcess) -> list[Any]:
    answers = [
        server.complete(TEXT, n_probs=2),
        server.complete(f"{TEXT} same", n_probs=0),
        server.post("/tokenize", {"content": TEXT}),
        server.post("/tokenize", {"content": ""}),
        server.post("/tokenize", {"content": 5}),
        server.post("/completion", {}),
        server.complete("word " * 1100),
    ]
    return [(answer.status_code, _form(answer.json())) for answer in answers]


def _form(value: object) -> object:
    """Keys in their order and types; of a list the first entry, of the settings nothing."""
    if isinstance(value, dict):
        return [(key, _form(one)) for key, one in value.items() if key != "generation_settings"]
    if isinstance(value, list):
        return [_form(value[0])] if value else []
    return type(value).__name__
