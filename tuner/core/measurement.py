"""Samples of one candidate and the rates that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: our clock and the server's `timings`."""

    prompt_id: str
    prompt_class: str
    ttft_s: float
    """From sending the request to the first token, thinking included, by our clock."""
    wall_s: float
    """From sending the request to the end of the answer, by our clock."""
    cache_n: int
    """Prompt tokens that the server reused."""
    prompt_n: int
    """Prompt tokens that the server processed."""
    prompt_ms: float
    predicted_n: int
    """Tokens generated, the first included."""
    predicted_ms: float
    """From the first token to the last."""
    draft_n: int | None
    """Tokens drafted; None where nothing was drafted."""
    draft_n_accepted: int | None
    text: str

    @property
    def generation_tok_s(self) -> float | None:
        """Rate of this request; None for fewer than two tokens.

        The first token comes out of the prompt pass, hence the minus one (server-common.h:450, build 11434).
        """
        if self.predicted_n < 2 or self.predicted_ms <= 0:
            return None
        return (self.predicted_n - 1) / self.predicted_ms * 1000


@dataclass(frozen=True, slots=True)
class Rates:
    """What some samples add up to. Sums of tokens over sums of time, never means of rates."""

    n_samples: int
    generation_tok_s: float | None
    prompt_tok_s: float | None
    acceptance: float | None
    """Accepted over drafted tokens; None where nothing was drafted."""
    drafted: int
    accepted: int
    ttft_s: float | None
    """Mean over the samples."""
    generation_spread: float | None
    """Standard deviation over mean of the requests' own rates; None for fewer than two."""


def rates(samples: Iterable[Sample]) -> Rates:
    """Add up samples; a sum over nothing is None, never 0."""
    rows = tuple(samples)
    generated = sum(max(row.predicted_n - 1, 0) for row in rows)
    generated_ms = sum(row.predicted_ms for row in rows)
    prompted = sum(row.prompt_n for row in rows)
    prompted_ms = sum(row.prompt_ms for row in rows)
    drafted = sum(row.draft_n or 0 for row in rows)
    accepted = sum(row.draft_n_accepted or 0 for row in rows)
    single = [rate for row in rows if (rate := row.generation_tok_s) is not None]
    return Rates(
        n_samples=len(rows),
        generation_tok_s=generated / generated_ms * 1000 if generated and generated_ms > 0 else None,
        prompt_tok_s=prompted / prompted_ms * 1000 if prompted and prompted_ms > 0 else None,
        acceptance=accepted / drafted if drafted else None,
        drafted=drafted,
        accepted=accepted,
        ttft_s=fmean(row.ttft_s for row in rows) if rows else None,
        generation_spread=stdev(single) / fmean(single) if len(single) > 1 else None,
    )


def rates_by_class(samples: Iterable[Sample]) -> dict[str, Rates]:
    """Rates of each prompt class, in the order in which the classes first appear."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.prompt_class, []).append(sample)
    return {name: rates(rows) for name, rows in groups.items()}
