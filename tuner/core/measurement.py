"""Samples of one candidate and the rates that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


#: The class of requests that are asked for their first token alone: no rate of a launch counts them.
FIRST_ONLY = "first-token"


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
    began_s: float = 0.0
    """When it was sent, in seconds after the launch's warm-up, by our clock."""
    depth_tokens: int = 0
    """How much of a text of no interest was put before the prompt, about: 0 for none."""

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
    turn_s: float | None
    """Seconds of a whole request, mean over the samples."""
    generation_spread: float | None
    """Standard deviation over mean of the requests' own rates; None for fewer than two."""


def rates(samples: Iterable[Sample]) -> Rates:
    """Add up samples; a sum over nothing is None, never 0. Requests for a first token alone are left out."""
    return _added(row for row in samples if counted(row))


def counted(sample: Sample) -> bool:
    """Whether a request is one of those that a launch's rates are of."""
    return sample.prompt_class != FIRST_ONLY


def joined(launches: Iterable[Sequence[Sample]]) -> tuple[Sample, ...]:
    """The answers of several launches as if they had been made one after the other."""
    found: list[Sample] = []
    for samples in launches:
        after_s = max((one.began_s + one.wall_s for one in found), default=0.0)
        first_s = min((one.began_s for one in samples), default=0.0)
        found += [replace(one, began_s=one.began_s - first_s + after_s) for one in samples]
    return tuple(found)


def _added(samples: Iterable[Sample]) -> Rates:
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
        turn_s=fmean(row.wall_s for row in rows) if rows else None,
        generation_spread=stdev(single) / fmean(single) if len(single) > 1 else None,
    )


def rates_by_class(samples: Iterable[Sample]) -> dict[str, Rates]:
    """Rates of each prompt class, in the order in which the classes first appear."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.prompt_class, []).append(sample)
    return {name: _added(rows) for name, rows in groups.items()}


@dataclass(frozen=True, slots=True)
class Turn:
    """The same request over some launches: means."""

    prompt_id: str
    prompt_class: str
    ttft_s: float
    wall_s: float
    cache_n: float
    prompt_n: float


def turns(samples: Iterable[Sample]) -> list[Turn]:
    """Each request by its name, in the order in which they first appear."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.prompt_id, []).append(sample)
    return [
        Turn(
            name,
            rows[0].prompt_class,
            ttft_s=fmean(row.ttft_s for row in rows),
            wall_s=fmean(row.wall_s for row in rows),
            cache_n=fmean(row.cache_n for row in rows),
            prompt_n=fmean(row.prompt_n for row in rows),
        )
        for name, rows in groups.items()
    ]


def rates_by_depth(samples: Iterable[Sample]) -> dict[int, Rates]:
    """Rates at each depth of the context, the shallowest first."""
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        if counted(sample):
            groups.setdefault(sample.depth_tokens, []).append(sample)
    return {depth: _added(groups[depth]) for depth in sorted(groups)}
