"""The bodies of the answers: JSON and SSE in the engine's own form and order of keys."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.fake_llama.distributions import VOCABULARY, token_text

if TYPE_CHECKING:
    from tests.support.fake_llama.builds import Build
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.requests import RawRequest

Json = dict[str, Any]
_ID_BYTES = 16


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def error(code: int, kind: str, message: str, **more: object) -> Json:
    return {"error": {"code": code, "message": message, "type": kind, **more}}


@dataclass(frozen=True, slots=True)
class Timings:
    """What the server says of one completion."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    draft_n: int
    draft_n_accepted: int
    first_token_counts: bool

    @property
    def steps(self) -> int:
        """Tokens that the speed is reckoned with."""
        return self.predicted_n if self.first_token_counts else self.predicted_n - 1

    @property
    def predicted_per_token_ms(self) -> float:
        return self.predicted_ms / self.steps if self.steps else 0.0

    @property
    def predicted_per_second(self) -> float:
        return 1e3 / self.predicted_ms * self.steps if self.predicted_ms else 0.0

    @property
    def prompt_per_token_ms(self) -> float:
        return self.prompt_ms / self.prompt_n

    @property
    def prompt_per_second(self) -> float:
        return 1e3 / self.prompt_ms * self.prompt_n

    def as_json(self) -> Json:
        body: Json = {
            "cache_n": self.cache_n,
            "prompt_n": self.prompt_n,
            "prompt_ms": self.prompt_ms,
            "prompt_per_token_ms": self.prompt_per_token_ms,
            "prompt_per_second": self.prompt_per_second,
            "predicted_n": self.predicted_n,
            "predicted_ms": self.predicted_ms,
            "predicted_per_token_ms": self.predicted_per_token_ms,
            "predicted_per_second": self.predicted_per_second,
        }
        if self.draft_n > 0:
            body |= {"draft_n": self.draft_n, "draft_n_accepted": self.draft_n_accepted}
        return body

    def usage(self) -> Json:
        prompt = self.cache_n + self.prompt_n
        return {
            "completion_tokens": self.predicted_n,
            "prompt_tokens": prompt,
            "total_tokens": prompt + self.predicted_n,
            "prompt_tokens_details": {"cached_tokens": self.cache_n},
        }


class ChatAnswer:
    """One chat completion, whole or in chunks."""

    def __init__(self, plan: Plan, build: Build) -> None:
        self._created = int(time.time())
        self._id = f"chatcmpl-{os.urandom(_ID_BYTES).hex()}"
        self._model = plan.model
        self._info = build.info

    def whole(self, content: str, reasoning: str, finish_reason: str, timings: Timings) -> Json:
        message: Json = {"role": "assistant", "content": content}
        if reasoning:
            message["reasoning_content"] = reasoning
        return {
            "choices": [{"finish_reason": finish_reason, "index": 0, "message": message}],
            "created": self._created,
            "model": self._model,
            "system_fingerprint": self._info,
            "object": "chat.completion",
            "usage": timings.usage(),
            "id": self._id,
            "timings": timings.as_json(),
        }

    def chunk(self, delta: Json, finish_reason: str | None = None, **more: object) -> Json:
        return self._chunk([{"finish_reason": finish_reason, "index": 0, "delta": delta}], more)

    def first_chunk(self) -> Json:
        return self.chunk({"role": "assistant", "content": None})

    def usage_chunk(self, timings: Timings) -> Json:
        return self._chunk([], {"usage": timings.usage(), "timings": timings.as_json()})

    def _chunk(self, choices: list[Json], more: Json) -> Json:
        return {
            "choices": choices,
            "created": self._created,
            "id": self._id,
            "model": self._model,
            "system_fingerprint": self._info,
            "object": "chat.completion.chunk",
            **more,
        }


def raw_completion(
    plan: Plan, asked: RawRequest, slot_number: int, timings: Timings, tokens: list[tuple[int, float]]
) -> Json:
    """The answer of /completion to a request for one token: the likeliest, and what else it might have been."""
    rows = [_probability(token, logarithm) for token, logarithm in tokens]
    body: Json = {
        "index": 0,
        "content": rows[0]["token"],
        "tokens": [],
        "id_slot": slot_number,
        "stop": True,
        "model": plan.model,
        "tokens_predicted": 1,
        "tokens_evaluated": asked.prompt_tokens,
        "generation_settings": _params(1, "none") | {"n_probs": asked.n_probs},
        "prompt": asked.prompt,
        "has_new_line": False,
        "truncated": False,
        "stop_type": "limit",
        "stopping_word": "",
        "tokens_cached": asked.prompt_tokens,
        "timings": timings.as_json(),
    }
    if asked.n_probs > 0:
        body["completion_probabilities"] = [rows[0] | {"top_logprobs": rows[: asked.n_probs]}]
    return body


def _probability(token: int, logarithm: float) -> Json:
    text = token_text(token)
    return {"id": token, "token": text, "bytes": list(text.encode()), "logprob": logarithm}


def props(plan: Plan, build: Build) -> Json:
    if plan.is_router:
        return {
            "role": "router",
            "max_instances": 4,
            "models_autoload": True,
            "model_alias": "llama-server",
            "model_path": "none",
            "default_generation_settings": {"params": None, "n_ctx": 0},
            "ui_settings": {},
            "build_info": build.info,
            "cors_proxy_enabled": False,
        }
    return {
        # `speculative.types` is always "none" here, in the engine too.
        "default_generation_settings": {"params": _params(-1, "none"), "n_ctx": plan.n_ctx_slot},
        "total_slots": plan.slot_count,
        "model_alias": plan.alias,
        "model_ftype": "Q8_0",
        "model_path": plan.model,
        "modalities": {"vision": False, "video": False, "audio": False},
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": False,
        "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
        "chat_template_caps": {"supports_system_role": True, "supports_reasoning_effort": False},
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "build_info": build.info,
        "is_sleeping": False,
    }


def slot(number: int, plan: Plan, *, busy: bool, last: Json | None) -> Json:
    """One entry of /slots; a slot that was never used has less to say."""
    body: Json = {
        "id": number,
        "n_ctx": plan.n_ctx_slot,
        "speculative": plan.speculates,
        "is_processing": busy,
    }
    if last is not None:
        asked = ",".join(("none", *plan.spec_types)) if plan.spec_types else "none"
        body |= {
            "id_task": last["task"],
            "n_prompt_tokens": last["n_prompt"],
            "params": _params(last["max_tokens"], asked),
        }
    return body


def models(plan: Plan) -> Json:
    if plan.is_router:
        return {"data": [], "object": "list"}
    meta = {
        "vocab_type": 2,
        "n_vocab": VOCABULARY,
        "n_ctx": plan.n_ctx_slot,
        "n_ctx_train": 32768,
        "n_embd": 4096,
        "n_params": 8_000_000_000,
        "size": round(plan.weights_mib * 1024 * 1024),
        "ftype": "Q8_0",
    }
    entry = {
        "id": plan.alias,
        "aliases": [plan.alias],
        "tags": [],
        "object": "model",
        "created": int(time.time()),
        "owned_by": "llamacpp",
        "meta": meta,
    }
    return {"models": [{"name": plan.model, "model": plan.model}], "object": "list", "data": [entry]}


def _params(max_tokens: int, spec_types: str) -> Json:
    return {
        "seed": 4294967295,
        "temperature": 0.800000011920929,
        "top_k": 40,
        "top_p": 0.949999988079071,
        "min_p": 0.05000000074505806,
        "max_tokens": max_tokens,
        "n_predict": max_tokens,
        "speculative.types": spec_types,
    }
