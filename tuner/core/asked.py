"""Whether a running server is what was asked for; if not, it measured something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.core.outcome import Kind, Outcome, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.measurement import Sample

#: The server's own generation time may be this much shorter than ours; beyond it one of the clocks is wrong.
CLOCK_TOLERANCE = 0.5
CLOCK_SLACK_S = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """What a launch was asked for, as far as the server can be asked back; None where it was left to it."""

    n_ctx_slot: int | None
    n_parallel: int | None
    drafts: bool | None


def server_difference(
    asked: Asked, props: Mapping[str, Any], slots: Sequence[Mapping[str, Any]]
) -> Outcome | None:
    """What `/props` and `/slots` say that differs from what was asked; None where nothing does."""
    if props.get("role") == "router":
        return _not_as_asked("the server is a router without a model of its own")
    total = props.get("total_slots")
    if asked.n_parallel is not None and total is not None and total != asked.n_parallel:
        return _not_as_asked(f"{asked.n_parallel} slots asked for, {total} got")
    settings = props.get("default_generation_settings")
    n_ctx = settings.get("n_ctx") if isinstance(settings, dict) else None
    if asked.n_ctx_slot is not None and n_ctx is not None and n_ctx < asked.n_ctx_slot:
        return _not_as_asked(f"{asked.n_ctx_slot} tokens of context a slot asked for, {n_ctx} got")
    speculative = [slot["speculative"] for slot in slots if isinstance(slot.get("speculative"), bool)]
    if asked.drafts is not None and speculative and speculative[0] != asked.drafts:
        if asked.drafts:
            return Outcome(
                Kind.DRAFT_UNAVAILABLE,
                phase=Phase.LOAD,
                evidence="/slots says that the server does not draft",
            )
        return _not_as_asked("/slots says that the server drafts, and no drafts were asked for")
    return None


def sample_difference(sample: Sample, max_tokens: int) -> Outcome | None:
    """What an answer's timings say that cannot be; None where they make sense."""
    if sample.cache_n > 0:
        return _not_as_asked(f"{sample.cache_n} tokens of a fresh prompt came from a cache", Phase.BENCHMARK)
    if sample.predicted_n < max_tokens:
        return _not_as_asked(
            f"{max_tokens} tokens asked for, {sample.predicted_n} generated", Phase.BENCHMARK
        )
    ours_s = sample.wall_s - sample.ttft_s
    theirs_s = sample.predicted_ms / 1000
    if theirs_s < ours_s * (1 - CLOCK_TOLERANCE) - CLOCK_SLACK_S:
        return _not_as_asked(
            f"the server says {theirs_s:.2f} s for what took {ours_s:.2f} s by our clock", Phase.BENCHMARK
        )
    if theirs_s > sample.wall_s + CLOCK_SLACK_S:
        return _not_as_asked(
            f"the server says {theirs_s:.2f} s, the whole request took {sample.wall_s:.2f} s by our clock",
            Phase.BENCHMARK,
        )
    return None


def _not_as_asked(evidence: str, phase: Phase = Phase.LOAD) -> Outcome:
    return Outcome(Kind.NOT_AS_ASKED, phase=phase, evidence=evidence)
