"""What is made the most of: an objective, and how much each class of prompts counts.

Every objective is a rate in tokens a second, so that a search, a ratio and an interval are the same for all:
generation counts the time from the first token to the last, a turn counts a whole request, and throughput counts
all slots together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.core.measurement import FIRST_ONLY, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tuner.core.measurement import Sample


class Objective(StrEnum):
    """What is made the most of."""

    GENERATION = "generation"
    """Tokens over the time from the first to the last."""
    TURN = "turn"
    """Tokens over the time of whole requests, prompts included."""
    THROUGHPUT = "throughput"
    """Tokens of all slots over the time from the first request to the last answer."""


@dataclass(frozen=True, slots=True)
class FirstTokenLimit:
    """How long a first token may take after a prompt of some length."""

    seconds: float
    tokens: int

    def __str__(self) -> str:
        return f"{self.seconds:g} s at {self.tokens:,} tokens"


@dataclass(frozen=True, slots=True)
class Goal:
    """What a study is made for.

    Args:
        objective: What is made the most of.
        weights: How much a class of prompts counts, by class; empty where each counts as often as it was asked.
        first_token: A limit that a winner has to keep; None for none.
    """

    objective: Objective = Objective.GENERATION
    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    first_token: FirstTokenLimit | None = None

    def rate_tok_s(self, samples: Iterable[Sample]) -> float | None:
        """What one launch makes; None where nothing says.

        Args:
            samples: Its answers.
        """
        rows = [row for row in samples if counted(row)]
        if self.objective is Objective.THROUGHPUT:
            return aggregate_tok_s(rows)
        if not self.weights:
            return _rate(sum(map(self._tokens, rows)), sum(map(self._seconds, rows)))
        tokens = self._weighted(rows, self._tokens)
        seconds = self._weighted(rows, self._seconds)
        return None if tokens is None or seconds is None else _rate(tokens, seconds)

    def request_tok_s(self, sample: Sample) -> float | None:
        """What a single request makes, for comparing the same request of two launches."""
        if self.objective is not Objective.TURN:
            return sample.generation_tok_s
        return _rate(sample.predicted_n, sample.wall_s)

    def decode_tok_s(self, samples: Iterable[Sample]) -> float | None:
        """The part of the rate that generating alone makes: all of it but for a turn, which has a prompt too."""
        return self.decoding.rate_tok_s(samples)

    @property
    def decoding(self) -> Goal:
        """The goal of that part."""
        return Goal(weights=self.weights) if self.objective is Objective.TURN else self

    def _weighted(self, rows: Sequence[Sample], of: Callable[[Sample], float]) -> float | None:
        """Sum over classes of weight times the mean; None where a class that counts was not answered."""
        total = 0.0
        for name, weight in self.weights.items():
            mine = [of(row) for row in rows if row.prompt_class == name]
            if not mine:
                return None
            total += weight * sum(mine) / len(mine)
        return total

    def _tokens(self, sample: Sample) -> float:
        # the first token comes out of the prompt pass (server-common.h:450, build 11434)
        return sample.predicted_n if self.objective is Objective.TURN else max(sample.predicted_n - 1, 0)

    def _seconds(self, sample: Sample) -> float:
        return sample.wall_s if self.objective is Objective.TURN else sample.predicted_ms / 1000

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        limit = self.first_token
        return {
            "objective": self.objective.value,
            "weights": dict(self.weights),
            "max_ttft": None if limit is None else {"seconds": limit.seconds, "tokens": limit.tokens},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Goal:
        """Read what `to_json` made; what an older study was made for where there is nothing."""
        if document is None:
            return cls()
        limit = document["max_ttft"]
        return cls(
            objective=Objective(document["objective"]),
            weights=MappingProxyType(dict(document["weights"])),
            first_token=None if limit is None else FirstTokenLimit(limit["seconds"], limit["tokens"]),
        )


GENERATION = Goal()


def aggregate_tok_s(samples: Sequence[Sample]) -> float | None:
    """Tokens of all requests over the time from the first one's start to the last one's end."""
    if not samples:
        return None
    began = min(sample.began_s for sample in samples)
    ended = max(sample.began_s + sample.wall_s for sample in samples)
    return _rate(sum(sample.predicted_n for sample in samples), ended - began)


def why_too_late(limit: FirstTokenLimit, samples: Iterable[Sample]) -> str | None:
    """Why a launch breaks the limit of its first token; None where it keeps it, or was not asked."""
    asked = [sample for sample in samples if sample.prompt_class == FIRST_ONLY]
    late = [sample for sample in asked if sample.ttft_s > limit.seconds]
    if not late:
        return None
    return (
        f"the first token came after {late[0].ttft_s:.2f} s at {late[0].cache_n + late[0].prompt_n:,} tokens of "
        f"prompt; at most {limit} was asked for"
    )


def _rate(tokens: float, seconds: float) -> float | None:
    return tokens / seconds if tokens > 0 and seconds > 0 else None
