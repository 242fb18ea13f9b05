"""Samples, results and trial records with just what a test cares about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.core.launch import LaunchResult
from tuner.core.measurement import Sample
from tuner.core.outcome import Kind, Outcome
from tuner.core.trial import TrialRecord

if TYPE_CHECKING:
    from tuner.core.candidate import Candidate

_SAMPLE = Sample(
    prompt_id="p1",
    prompt_class="code",
    ttft_s=0.2,
    wall_s=1.2,
    cache_n=0,
    prompt_n=100,
    prompt_ms=200.0,
    predicted_n=101,
    predicted_ms=1000.0,
    draft_n=None,
    draft_n_accepted=None,
    text="def f(): pass",
)


def a_sample(**changes: Any) -> Sample:  # noqa: ANN401 - any field of a sample
    """A sane sample of 100 tok/s, with some fields changed."""
    return replace(_SAMPLE, **changes)


def measured(tok_s: float, kind: Kind = Kind.NONE) -> LaunchResult:
    """A launch with one sample of that rate."""
    return LaunchResult(Outcome(kind), samples=(a_sample(predicted_ms=100 / tok_s * 1000),))


def ended(kind: Kind) -> LaunchResult:
    """A launch that ended that way, without a sample."""
    return LaunchResult(Outcome(kind, evidence=f"a line about {kind}"))


def a_record(
    number: int,
    candidate: Candidate | None,
    result: LaunchResult | None,
    *,
    reference: str | None = None,
    wall_s: float = 10.0,
) -> TrialRecord:
    """A trial as the study would give it."""
    return TrialRecord(
        number=number,
        candidate=candidate,
        reference=reference,
        argv=("llama-server",),
        environment={},
        result=result,
        wall_s=wall_s,
    )
