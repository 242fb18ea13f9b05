"""How long things may take: deadlines that a wait asks, and how they follow from a model and a workload."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.engine.client import Deadlines

if TYPE_CHECKING:
    from tuner.core.model import ModelFile
    from tuner.core.workload import Prompt


class Patience:
    """A deadline that a wait asks.

    Attributes:
        seconds: How long it is in all.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds left; never below 0."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def over(self) -> bool:
        """Whether it has passed."""
        return self.left_s <= 0.0


@dataclass(frozen=True, slots=True)
class Patiences:
    """How long a launch may take, in seconds, from a model's size and a workload's lengths.

    The rates are those of a slow disk and of a model that runs on a processor: a launch that is slower than
    this is not waited for.
    """

    load_s: float
    stall_s: float
    """Without a new line of log while loading."""

    @classmethod
    def of(cls, model: ModelFile, slowest_load_s: float | None = None) -> Patiences:
        """For a file of that size, and for loads as they were so far: ten times the slowest is a hang."""
        load_s = 120 + model.size_bytes / 50e6
        stall_s = 60 + model.size_bytes / 100e6
        if slowest_load_s is not None:
            load_s = min(load_s, max(10 * slowest_load_s, 120.0))
            stall_s = min(stall_s, max(5 * slowest_load_s, 60.0))
        return cls(load_s=load_s, stall_s=stall_s)

    @staticmethod
    def request(
        prompt: Prompt, max_tokens: int, slowest_prompt_tok_s: float | None = None, *, streams: int = 1
    ) -> Deadlines:
        """For one request; three characters are about one token.

        Args:
            prompt: What is asked.
            max_tokens: Tokens of the answer.
            slowest_prompt_tok_s: The slowest that this server has read a prompt; None before the first. Long
                prompts are read more slowly than short ones, but not twenty times.
            streams: Requests that are served at the same time: each may have to wait for the others.
        """
        characters = sum(len(str(message.get("content", ""))) for message in prompt.messages)
        first_token_s = 60 + streams * characters / 3 / max(10.0, (slowest_prompt_tok_s or 0.0) / 20)
        return Deadlines(
            first_token_s=first_token_s,
            between_tokens_s=60.0,
            whole_s=first_token_s + 60 + max_tokens * 2 * streams,
        )
