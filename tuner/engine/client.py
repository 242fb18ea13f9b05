"""What is said to a running server over HTTP: readiness, what it is, and one streamed chat request."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import httpx

from tuner.core.measurement import Sample
from tuner.core.quality import NextToken
from tuner.core.workload import Thinking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from tuner.core.workload import Prompt, Sampling, Workload

#: The greedy settings that hold where nobody sets a sampler; all are sent, since a model's own metadata or a
#: build's defaults would fill the gaps (common.cpp:1088).
DEFAULT_SAMPLING: Mapping[str, float | int | str] = {
    "temperature": 0.0,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
QUICK_S = 5.0
#: Likeliest tokens that are shown of a distribution: they hold about 98 % of it on a small model.
N_PROBS = 200


class RequestFailed(Exception):  # noqa: N818 - it is what happened
    """A request did not come to its end.

    Attributes:
        silent: Whether the server lived on without an answer, so that the deadline ended it.
        refused: Whether it answered that it will not.
    """

    def __init__(self, what: str, *, silent: bool = False, refused: bool = False) -> None:
        super().__init__(what)
        self.silent = silent
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a request may take, in seconds."""

    first_token_s: float
    between_tokens_s: float
    whole_s: float

    def within(self, seconds: float) -> Deadlines:
        """The same, but none later than so many seconds from now."""
        return Deadlines(
            first_token_s=min(self.first_token_s, seconds),
            between_tokens_s=min(self.between_tokens_s, seconds),
            whole_s=min(self.whole_s, seconds),
        )


class Client:
    """A client of one server. Connections are not kept.

    After a streamed answer the server closes a connection that it advertised as alive, and the next request
    on it fails (14 of 120; 0 of 120 without a pool).
    """

    def __init__(self, base_url: str, api_key: str, transport: httpx.BaseTransport | None = None) -> None:
        self._http = httpx.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {api_key}"},
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=QUICK_S,
            trust_env=False,  # a proxy of the user's has no business between us and a child
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def is_ready(self) -> bool:
        """Whether `/health` says 200; an unbound port or 503 (loading) is no."""
        try:
            return self._http.get("/health").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def props(self) -> Mapping[str, Any]:
        """`/props`.

        Raises:
            RequestFailed: It does not answer as llama-server does.
        """
        return self._object("/props")

    def slots(self) -> list[Mapping[str, Any]]:
        """`/slots`; empty where the server does not tell.

        Raises:
            RequestFailed: It does not answer as llama-server does.
        """
        answer = self._get("/slots")
        if answer.status_code == httpx.codes.NOT_IMPLEMENTED:
            return []
        rows = _decoded(answer, "/slots")
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def next_token(self, text: str, *, deadline_s: float) -> NextToken | None:
        """What would come next after a raw text, over the likeliest tokens; None where the server does not tell.

        The part of the text that the slot has read already is not read again.

        Raises:
            RequestFailed: The server broke off or took too long.
        """
        body = {
            "prompt": text,
            "n_predict": 1,
            "n_probs": N_PROBS,
            "temperature": 0.0,
            "cache_prompt": True,
            "id_slot": 0,
        }
        try:
            answer = self._http.post(
                "/completion", json=body, timeout=httpx.Timeout(QUICK_S, read=deadline_s)
            )
        except httpx.TimeoutException as error:
            raise RequestFailed(f"no next token after {deadline_s:.0f} s", silent=True) from error
        except httpx.TransportError as error:
            raise RequestFailed(f"the connection broke: {_named(error)}") from error
        return _next_token(answer)

    def count_tokens(self, text: str) -> int | None:
        """Tokens that a raw text is; None where the server does not tell.

        Raises:
            RequestFailed: The server broke off or took too long.
        """
        try:
            answer = self._http.post("/tokenize", json={"content": text})
        except httpx.TransportError as error:
            silent = isinstance(error, httpx.TimeoutException)
            raise RequestFailed(f"/tokenize: {_named(error)}", silent=silent) from error
        if answer.status_code != httpx.codes.OK:
            return None
        try:
            tokens = answer.json()["tokens"]
        except (KeyError, TypeError, ValueError):
            return None
        return len(tokens) if isinstance(tokens, list) else None

    def chat(self, prompt: Prompt, workload: Workload, *, max_tokens: int, deadlines: Deadlines) -> Sample:
        """Send one conversation, read the stream, and time it.

        Raises:
            RequestFailed: It was refused, broke off, took too long, or ended without `timings`.
        """
        body = request_body(prompt, workload, max_tokens=max_tokens)
        start = time.monotonic()
        first: float | None = None
        text: list[str] = []
        timings: Mapping[str, Any] | None = None
        # httpx's read timeout is the time between two reads: until the first token, and between tokens
        timeout = httpx.Timeout(QUICK_S, read=deadlines.first_token_s)
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=body, timeout=timeout) as answer:
                if answer.status_code != httpx.codes.OK:
                    answer.read()
                    raise RequestFailed(_refusal(answer), refused=True)
                for event in _events(answer, start, deadlines):
                    piece = _text_of(event)
                    if piece and first is None:
                        first = time.monotonic()
                    text.append(piece)
                    timings = event.get("timings", timings)
        except httpx.TimeoutException as error:
            waited = "the first token" if first is None else "the next token"
            raise RequestFailed(
                f"no sign of {waited} after {time.monotonic() - start:.0f} s", silent=True
            ) from error
        except httpx.TransportError as error:
            raise RequestFailed(f"the connection broke: {_named(error)}") from error
        end = time.monotonic()
        if timings is None:
            raise RequestFailed("the answer ended without timings")
        return _sample(prompt, timings, "".join(text), ttft_s=(first or end) - start, wall_s=end - start)

    def _object(self, path: str) -> Mapping[str, Any]:
        value = _decoded(self._get(path), path)
        if not isinstance(value, dict):
            raise RequestFailed(f"{path} answered {value!r:.80}, not an object")
        return value

    def _get(self, path: str) -> httpx.Response:
        try:
            return self._http.get(path)
        except httpx.TransportError as error:
            silent = isinstance(error, httpx.TimeoutException)
            raise RequestFailed(f"{path}: {_named(error)}", silent=silent) from error


def request_body(prompt: Prompt, workload: Workload, *, max_tokens: int) -> dict[str, Any]:
    """The request for one prompt: a fixed length, a fixed seed, every sampler stated.

    Nothing is reused of what the server has read before, but where a prompt begins with a text of no interest.
    """
    body: dict[str, Any] = {
        "messages": list(prompt.messages),
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "cache_prompt": prompt.reuses,
        "seed": workload.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        **stated(workload.sampling),
    }
    if workload.thinking is not Thinking.AUTO:
        body["chat_template_kwargs"] = {"enable_thinking": workload.thinking is Thinking.ON}
    return body


def stated(sampling: Sampling) -> dict[str, float | int | str]:
    """Every sampler setting that a request states: the user's or the model's, and ours for the rest."""
    return {**DEFAULT_SAMPLING, **sampling.values}


def _events(answer: httpx.Response, start: float, deadlines: Deadlines) -> Iterator[Mapping[str, Any]]:
    """The decoded `data:` lines of a stream; comment lines (pings of a long prompt pass) are no events."""
    seen_token = False
    last = start
    for line in answer.iter_lines():
        now = time.monotonic()
        patience_s = deadlines.between_tokens_s if seen_token else deadlines.first_token_s
        if now - last > patience_s or now - start > deadlines.whole_s:
            raise httpx.ReadTimeout("too slow")
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        try:
            event = json.loads(data)
        except ValueError as error:
            raise RequestFailed(f"the stream holds no JSON: {data:.80}") from error
        if not isinstance(event, dict):
            raise RequestFailed(f"the stream holds no object: {data:.80}")
        if "error" in event:
            raise RequestFailed(f"the server reports: {event['error']}")
        seen_token = seen_token or bool(_text_of(event))
        last = now
        yield event


def _text_of(event: Mapping[str, Any]) -> str:
    """What an event adds to the answer; thought counts, or its first token would be missed."""
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return ""
    delta = choices[0].get("delta")
    if not isinstance(delta, dict):
        return ""
    return str(delta.get("reasoning_content") or "") + str(delta.get("content") or "")


def _sample(prompt: Prompt, timings: Mapping[str, Any], text: str, *, ttft_s: float, wall_s: float) -> Sample:
    try:
        draft_n, accepted = timings.get("draft_n"), timings.get("draft_n_accepted")
        return Sample(
            prompt_id=prompt.id,
            prompt_class=prompt.prompt_class,
            ttft_s=ttft_s,
            wall_s=wall_s,
            cache_n=int(timings.get("cache_n") or 0),
            prompt_n=int(timings["prompt_n"]),
            prompt_ms=float(timings["prompt_ms"]),
            predicted_n=int(timings["predicted_n"]),
            predicted_ms=float(timings["predicted_ms"]),
            draft_n=None if draft_n is None else int(draft_n),
            draft_n_accepted=None if accepted is None else int(accepted),
            text=text,
            depth_tokens=prompt.depth_tokens,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RequestFailed(f"timings are not understood: {timings!r:.200}") from error


def slots_of(props: Mapping[str, Any]) -> int:
    """Requests that a server serves at once, by its `/props`."""
    slots = props.get("total_slots")
    return slots if isinstance(slots, int) and slots > 0 else 1


def slot_context_of(props: Mapping[str, Any]) -> int | None:
    """Tokens that a slot holds, by `/props`; None where it does not say."""
    settings = props.get("default_generation_settings")
    n_ctx = settings.get("n_ctx") if isinstance(settings, dict) else None
    return n_ctx if isinstance(n_ctx, int) and n_ctx > 0 else None


def _next_token(answer: httpx.Response) -> NextToken | None:
    """The distribution of an answer of `/completion`; None where it holds none (server-context.cpp)."""
    if answer.status_code != httpx.codes.OK:
        return None
    try:
        rows = answer.json()["completion_probabilities"][0]["top_logprobs"]
        found = {int(row["id"]): math.exp(min(float(row["logprob"]), 0.0)) for row in rows}
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return NextToken(MappingProxyType(found)) if found else None


def _decoded(answer: httpx.Response, path: str) -> object:
    if answer.status_code != httpx.codes.OK:
        raise RequestFailed(f"{path}: {_refusal(answer)}", refused=True)
    try:
        value: object = answer.json()
    except ValueError as error:
        raise RequestFailed(f"{path} answered no JSON: {answer.text[:80]!r}") from error
    return value


def _refusal(answer: httpx.Response) -> str:
    return f"HTTP {answer.status_code}: {answer.text.strip()[:300]}"


def _named(error: httpx.TransportError) -> str:
    """What went wrong; some errors of the transport say nothing but their name."""
    return str(error) or type(error).__name__
