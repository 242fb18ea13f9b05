"""Samples, results and trial records with just what a test cares about."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult
from tuner.core.measurement import Sample
from tuner.core.outcome import Kind, Outcome
from tuner.core.trial import SEARCHING, Errand, Purpose, TrialRecord
from tuner.search.confirmation.state import Confirmation, Failed, Wanted, next_step

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """A sane sample of 100 tok/s, with some fields changed; our clock follows the server's."""
    sample = replace(_SAMPLE, **changes)
    if "wall_s" not in changes:
        sample = replace(sample, wall_s=sample.ttft_s + sample.predicted_ms / 1000)
    return sample


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
    errand: Errand = SEARCHING,
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
        errand=errand,
    )


def a_launch(
    number: int, key: str, result: LaunchResult | None, errand: Errand, *, wall_s: float = 10.0
) -> TrialRecord:
    """A trial of what has that key."""
    if key.startswith("reference:"):
        return a_record(
            number, None, result, reference=key.removeprefix("reference:"), wall_s=wall_s, errand=errand
        )
    return a_record(number, Candidate.from_json(json.loads(key)), result, wall_s=wall_s, errand=errand)


def unfit(*keys: str, first_number: int = 900) -> list[TrialRecord]:
    """Soaks that these did not survive."""
    return [
        a_launch(number, key, ended(Kind.CRASHED), Errand(Purpose.SOAK, 1))
        for number, key in enumerate(keys, first_number)
    ]


@dataclass(frozen=True, slots=True)
class PlayedConfirmation:
    """What a run would have done: the launches in order, and who was known to be out before each."""

    confirmation: Confirmation
    records: tuple[TrialRecord, ...]
    asked: tuple[Wanted, ...]
    out_before: tuple[dict[str, str], ...]

    @property
    def failed(self) -> dict[str, str]:
        """Who was given up, and why."""
        return dict(self.confirmation.out)


def confirm(
    confirmation: Confirmation,
    launch: Callable[[Wanted, int], LaunchResult],
    *,
    launches: int | None = None,
    first_number: int = 0,
) -> PlayedConfirmation:
    """Launch what is asked for until nothing is.

    Args:
        confirmation: Where it begins.
        launch: What comes of a launch, told how often it was made before.
        launches: How many there may be; None for any.
        first_number: The number of the first trial.
    """
    records: list[TrialRecord] = []
    asked: list[Wanted] = []
    out_before: list[dict[str, str]] = []
    while True:
        step = next_step(confirmation, records)
        if isinstance(step, Failed):
            assert step.arm not in confirmation.out
            out = MappingProxyType({**confirmation.out, step.arm: step.why})
            confirmation = replace(confirmation, out=out)
            continue
        if not isinstance(step, Wanted) or len(records) == launches:
            return PlayedConfirmation(confirmation, tuple(records), tuple(asked), tuple(out_before))
        errand = Errand(Purpose.CONFIRM, confirmation.round, step.block)
        number = first_number + len(records)
        records.append(a_launch(number, step.arm, launch(step, asked.count(step)), errand))
        asked.append(step)
        out_before.append(dict(confirmation.out))
