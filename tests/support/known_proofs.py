"""Studies with a proof: what the search, the confirmation and the soak of a few configurations came to."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import exp
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tests.support.trials import PlayedConfirmation, a_launch, confirm, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchResult
from tuner.core.options import BASE_OPTIONS
from tuner.core.outcome import Kind, Outcome
from tuner.core.quality import Loss, Quality
from tuner.core.soak import Soaked
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.search.confirmation.state import Confirmation
from tuner.search.confirmation.verdict import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.search.confirmation.state import Wanted

PLAIN = Candidate.of(BASE_OPTIONS | {"split-mode": "layer"})
A, B = (PLAIN.with_options({"ubatch-size": size}).key() for size in (128, 256))
REF, OWN = f"reference:{ENGINE_DEFAULT}", f"reference:{CURRENT}"
RATES = {A: 40.0, B: 40.0, REF: 20.0, OWN: 50.0}
SOAKED = Soaked(
    requests=12,
    seconds=90.0,
    longest_prompt_tokens=15_000,
    slot_context=16_384,
    longest_answer_tokens=512,
    at_once=1,
    small_before_tok_s=40.0,
    small_after_tok_s=39.0,
    longest_gap_s=0.0,
    host_growth_mib=None,
    free_mib=MappingProxyType({}),
)
NAMES = [Candidate.from_json(json.loads(key)).summary() for key in (A, B)]


def searched(rates: Mapping[str, float] = RATES, arms: Sequence[str] = (REF, A, B)) -> list[TrialRecord]:
    """What the search has measured; its numbers are below those of the confirmation."""
    return [
        a_launch(number, arm, measured(rates[arm]), Errand(Purpose.SEARCH, 0, 0))
        for number, arm in enumerate(arms)
    ]


def played(
    *,
    arms: tuple[str, ...] = (A, B),
    references: tuple[str, ...] = (REF,),
    rates: Mapping[str, float] = RATES,
    blocks: int = 4,
    launches: int | None = None,
    noise: float = 0.004,
    instead: Mapping[tuple[str, int], LaunchResult] | None = None,
    loss: float = 0.0,
) -> PlayedConfirmation:
    """A confirmation from trial 10 on; `loss` is what the rig loses from launch to launch."""
    dice = random.Random(3)  # noqa: S311 - no secret
    made = []

    def launch(step: Wanted, tries: int) -> LaunchResult:
        made.append(step)
        if tries == 0 and (step.arm, step.block) in (instead or {}):
            return (instead or {})[step.arm, step.block]
        return measured(rates[step.arm] * exp(dice.gauss(0, noise) - loss * len(made)))

    begun = Confirmation(1, Plan(arms, references, blocks, 0.0), (None, None))
    return confirm(begun, launch, launches=launches, first_number=10)


def state(
    one: PlayedConfirmation,
    *more: TrialRecord,
    **changes: Any,  # noqa: ANN401 - any field of a confirmation
) -> tuple[Confirmation, list[TrialRecord]]:
    """Where it stands, and all trials."""
    confirmation = replace(one.confirmation, **changes)
    return confirmation, [*searched(), *one.records, *more]


def tried(
    number: int, key: str, purpose: Purpose, soaked: Soaked | None = SOAKED, kind: Kind = Kind.NONE
) -> TrialRecord:
    """A soak or an endurance, and how it ended."""
    return a_launch(number, key, LaunchResult(Outcome(kind), soak=soaked), Errand(purpose, 1))


def looked_at(kl_nats: float, objection: str | None = None, deep: float | None = None) -> Quality:
    """Answers that far off the reference's."""
    loss = Loss(
        positions=90, deepest_tokens=2000, kl_nats=kl_nats, deep_kl_nats=deep, worst_kl_nats=1.0, top1=0.95
    )
    return Quality(loss, 0.01, 0.001, 0.8, 10.0, objection)


def with_quality(number: int, key: str, quality: Quality) -> TrialRecord:
    """A launch with such answers."""
    record = a_launch(number, key, replace(measured(40.0), quality=quality), Errand())
    if quality.objection is None or record.result is None:
        return record
    return replace(record, result=replace(record.result, outcome=Outcome(Kind.DEGRADED)))
