"""A running server that is played, by a clock of its own: what it does and when is what a test says."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from math import exp
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.measurement import Sample
from tuner.core.quality import NextToken
from tuner.core.workload import Prompt, PromptSet, Sampling, Thinking, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: What a chat template adds to a prompt.
TEMPLATE_TOKENS = 24
CHARACTERS_A_TOKEN = 4
_SHOWN = 8


class ServerDied(Exception):  # noqa: N818 - it is what happened
    """It is gone, or says no more; what an engine's own exception is to a work."""


class Refused(Exception):  # noqa: N818 - as above
    """It answered that it will not."""


@dataclass
class PlayedServer:
    """Answers by rates; each function of it is told how many requests there were before."""

    slots: int = 1
    slot_context: int | None = 8192
    prompt_tok_s: float = 1000.0
    generation_tok_s: float = 50.0
    pace: Callable[[int], float] = lambda _requests: 1.0
    """What generation is multiplied by."""
    pace_after_gap: float = 1.0
    """The same, for ever, once it was left alone."""
    free: Callable[[int], Mapping[str, int]] = lambda _requests: {"CUDA0": 4000}
    host: Callable[[int], float | None] = lambda _requests: 1000.0
    disk: Callable[[int], float | None] = lambda _requests: 0.0
    """MiB that it has read from the disk."""
    dies_at: int | None = None
    """The request that it does not answer, counted from 0."""
    counts: Callable[[str], int | None] = lambda text: -(-len(text) // CHARACTERS_A_TOKEN)
    off_nats: float = 0.0
    """How far its next tokens are from those of one without."""
    deep_off_nats: float | None = None
    """The same after more than 2,000 characters; None for no other."""
    tells: bool = True
    """Whether it says what comes next."""
    next_token_s: float = 0.01
    says: Callable[[Prompt], str] = lambda prompt: (
        f"The answer to {prompt.id} is a sentence of forty-two words."
    )
    now: float = 0.0
    requests: int = 0
    asked: list[Prompt] = field(default_factory=list)
    together: list[int] = field(default_factory=list)
    """Of each time that it was asked several at once, how many."""
    gaps_s: list[float] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    """Texts after which it was asked what comes next."""

    def clock(self) -> float:
        """Seconds, by its own clock."""
        return self.now

    def ask(self, prompt: Prompt, max_tokens: int) -> Sample:
        sample = self._answer(prompt, max_tokens)
        self.now += sample.wall_s
        return sample

    def ask_together(
        self, prompts: Sequence[Prompt], max_tokens: int, *, at_once: int | None = None
    ) -> list[Sample]:
        if at_once is not None and at_once < len(prompts):
            parts = [prompts[n : n + at_once] for n in range(0, len(prompts), at_once)]
            return [sample for part in parts for sample in self.ask_together(part, max_tokens)]
        if len(prompts) > self.slots:
            raise Refused(f"{len(prompts)} at once, {self.slots} slots")
        self.together.append(len(prompts))
        samples = [self._answer(prompt, max_tokens) for prompt in prompts]
        self.now += max(sample.wall_s for sample in samples)
        return samples

    def disk_read_mib(self) -> float | None:
        return self.disk(self.requests)

    def next_token(self, text: str) -> NextToken | None:
        before = self.read[-1] if self.read else ""
        self.read.append(text)
        unread = text.removeprefix(before) if before and text.startswith(before) else text
        self.now += self.next_token_s + len(unread) / CHARACTERS_A_TOKEN / self.prompt_tok_s
        if not self.tells or (
            self.slot_context is not None and (self.counts(text) or 0) >= self.slot_context
        ):
            return None
        deep = self.deep_off_nats is not None and len(text) > 2000
        return next_token(text, self.deep_off_nats or 0.0 if deep else self.off_nats)

    def count_tokens(self, text: str) -> int | None:
        return self.counts(text)

    def idle(self, seconds: float) -> None:
        self.now += seconds
        self.gaps_s.append(seconds)

    def free_mib(self) -> Mapping[str, int]:
        return self.free(self.requests)

    def host_mib(self) -> float | None:
        return self.host(self.requests)

    def _answer(self, prompt: Prompt, max_tokens: int) -> Sample:
        if self.requests == self.dies_at:
            raise ServerDied("CUDA error: an illegal memory access was encountered")
        tokens = sum(self.counts(message["content"]) or 0 for message in prompt.messages) + TEMPLATE_TOKENS
        if self.slot_context is not None and tokens + max_tokens > self.slot_context:
            raise Refused(f"{tokens} + {max_tokens} tokens, the slot holds {self.slot_context}")
        rate = (
            self.generation_tok_s * self.pace(self.requests) * (self.pace_after_gap if self.gaps_s else 1.0)
        )
        self.requests += 1
        self.asked.append(prompt)
        prompt_s, predicted_s = tokens / self.prompt_tok_s, (max_tokens - 1) / rate
        return Sample(
            prompt_id=prompt.id,
            prompt_class=prompt.prompt_class,
            ttft_s=prompt_s,
            wall_s=prompt_s + predicted_s,
            cache_n=0,
            prompt_n=tokens,
            prompt_ms=prompt_s * 1000,
            predicted_n=max_tokens,
            predicted_ms=predicted_s * 1000,
            draft_n=None,
            draft_n_accepted=None,
            text=self.says(prompt),
        )


def next_token(text: str, off_nats: float = 0.0) -> NextToken:
    """Always the same for a text, over all that it shows; so many nats from the one without."""
    seed = zlib.crc32(text.encode())
    weights = {1 + (seed >> place) % 251 + 251 * place: 2.0**-place for place in range(_SHOWN)}
    share = exp(-off_nats) / sum(weights.values())
    found = {token: weight * share for token, weight in weights.items()}
    return NextToken(MappingProxyType({**found, 0: 1.0 - exp(-off_nats)} if off_nats else found))


def workload(*names: str, tokens: int = 33, temperature: float = 0.0) -> Workload:
    """Prompts of those names."""
    prompts = tuple(_prompt(name) for name in names)
    sampling = Sampling(MappingProxyType({"temperature": temperature}))
    return Workload(
        PromptSet("set", _prompt("warm-up"), prompts, "d"), tokens, sampling, Thinking.AUTO, seed=1
    )


def _prompt(name: str) -> Prompt:
    return Prompt(name, "code", ({"role": "user", "content": f"Write about {name}, and do not stop."},))
