"""best.json: the best configuration so far, what it is compared with, and what all of it depends on."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema

from tuner import __version__
from tuner.core.measurement import Rates, joined, rates_by_class, rates_by_depth, turns
from tuner.core.objective import Objective
from tuner.core.telemetry import joules_a_token
from tuner.core.trial import TrialRecord, best_of, disqualified, searched
from tuner.report.proof import (
    confirmation_document,
    disqualified_document,
    endurance_document,
    quality_document,
    soak_document,
    winner_quality,
)
from tuner.search.confirmation.result import result_of, winner_of
from tuner.search.confirmation.state import launches_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.search.confirmation.state import Confirmation

SCHEMA_VERSION = 1


def best_document(
    records: Sequence[TrialRecord],
    facts: Mapping[str, Any],
    *,
    date: str,
    confirmation: Confirmation | None = None,
) -> dict[str, Any] | None:
    """Build best.json from a study.

    Args:
        records: All trials of the study.
        facts: The study's facts: engine, devices, model, workload.
        date: When this is written, ISO 8601 with offset.
        confirmation: Where its confirmation stands; None where it has none.

    Returns:
        A document that satisfies the schema; None as long as nothing was measured.
    """
    key = winner_of(confirmation, records)
    if key is None:
        return None
    winner = shown(key, records, confirmation)
    references = [
        shown(record.key, records, confirmation) for record in _last_of_each_reference(searched(records))
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "tuner_version": __version__,
        "date": date,
        "study": {**facts["study"], "trials": _counts(records)},
        "winner": {
            "trial": winner.number,
            "reference": winner.reference,
            **_command(winner),
            "parameters": {} if winner.candidate is None else winner.candidate.to_json(),
            **_rates(winner),
            "turns": _turns(winner, facts),
            "energy": _energy(winner),
            "memory_mib": _memory(winner),
            "telemetry": _telemetry(winner),
            "quality": winner_quality(key, records),
        },
        "references": [
            {
                "name": record.reference,
                "trial": record.number,
                **_command(record),
                "outcome": _outcome(record),
                **_rates(record),
                "energy": _energy(record),
                "winner_ratio": _ratio(winner, record),
                "quality": winner_quality(record.key, records),
            }
            for record in references
        ],
        "runner_up": _runner_up(key, records, confirmation),
        "confirmation": confirmation_document(confirmation, records),
        "soak": soak_document(key, records),
        "endurance": endurance_document(key, records),
        "disqualified": disqualified_document(records),
        "quality": quality_document(records),
        **{name: facts[name] for name in ("engine", "devices", "model", "workload")},
        "other_devices": facts.get("other_devices", []),  # older studies do not say
        "driver": facts.get("driver"),  # studies of before do not say
    }


def shown(key: str, records: Sequence[TrialRecord], confirmation: Confirmation | None) -> TrialRecord:
    """The trial that stands for a configuration, with the samples of all launches that confirmed it.

    Args:
        key: Of a configuration that was launched.
        records: All trials of the study.
        confirmation: Where the study's confirmation stands.
    """
    launched = [] if confirmation is None else launches_of(confirmation, records)
    confirmed = [record for record in launched if record.key == key and record.score is not None]
    if confirmed and confirmed[-1].result is not None:
        samples = joined([one.result.samples for one in confirmed if one.result is not None])
        return replace(confirmed[-1], result=replace(confirmed[-1].result, samples=samples))
    own = [record for record in searched(records) if record.key == key and record.result is not None]
    may_win = [record for record in own if record.may_win]
    return max(may_win, key=lambda record: (record.worth, -record.number)) if may_win else own[-1]


def check_best(document: Mapping[str, Any]) -> None:
    """Check a document against the schema.

    Raises:
        jsonschema.ValidationError: It does not satisfy it.
    """
    _validator().validate(document)


def schema() -> dict[str, Any]:
    """The JSON Schema of best.json, as shipped."""
    text = resources.files("tuner.report").joinpath("best.schema.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def shell_command(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """One line for a POSIX shell."""
    assignments = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    return " ".join([*assignments, shlex.join(argv)])


def runner_up_of(
    winner: str, records: Sequence[TrialRecord], confirmation: Confirmation | None
) -> str | None:
    """The key of the best candidate beside the winner: as it was confirmed, else as it was searched."""
    result = None if confirmation is None else result_of(confirmation, records)
    if result is not None and result.runner_up is not None:
        return result.runner_up.arm
    gone = {winner, *disqualified(records)}
    rest = [one for one in searched(records) if one.candidate is not None and one.key not in gone]
    best = best_of(rest)
    return None if best is None else best.key


def _runner_up(
    winner: str, records: Sequence[TrialRecord], confirmation: Confirmation | None
) -> dict[str, Any] | None:
    key = runner_up_of(winner, records, confirmation)
    if key is None:
        return None
    record = shown(key, records, confirmation)
    if record.candidate is None:
        return None
    return {
        "trial": record.number,
        **_command(record),
        "parameters": record.candidate.to_json(),
        **_rates(record),
    }


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def _last_of_each_reference(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    last = {r.reference: r for r in records if r.reference is not None and r.result is not None}
    return list(last.values())


def _command(record: TrialRecord) -> dict[str, Any]:
    return {
        "argv": list(record.argv),
        "environment": dict(record.environment),
        "command": shell_command(record.argv, record.environment),
    }


def _rates(record: TrialRecord) -> dict[str, Any]:
    result, total = record.result, record.rates
    if result is None or total is None:
        return {"score_tok_s": None, "rates": None, "classes": {}, "depths": {}}
    return {
        "score_tok_s": record.score,
        "rates": {**_rates_json(total), "aggregate_tok_s": _aggregate(record)},
        "classes": {name: _rates_json(rates) for name, rates in rates_by_class(result.samples).items()},
        "depths": {str(depth): _rates_json(rates) for depth, rates in rates_by_depth(result.samples).items()},
    }


def _turns(record: TrialRecord, facts: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Each turn of a session; null where single prompts were asked."""
    if facts["workload"].get("session") is None or record.result is None:
        return None
    return [
        {
            "turn": turn.prompt_id,
            "kind": turn.prompt_class,
            "ttft_s": turn.ttft_s,
            "turn_s": turn.wall_s,
            "cache_n": turn.cache_n,
            "prompt_n": turn.prompt_n,
        }
        for turn in turns(record.result.samples)
    ]


def _aggregate(record: TrialRecord) -> float | None:
    """All slots together; null where requests came one after the other."""
    return record.score if record.goal.objective is Objective.THROUGHPUT else None


def _rates_json(rates: Rates) -> dict[str, Any]:
    return {
        "generation_tok_s": rates.generation_tok_s,
        "generation_spread": rates.generation_spread,
        "prompt_tok_s": rates.prompt_tok_s,
        "ttft_s": rates.ttft_s,
        "turn_s": rates.turn_s,
        "acceptance": rates.acceptance,
        "drafted": rates.drafted,
        "accepted": rates.accepted,
        "requests": rates.n_samples,
    }


def _energy(record: TrialRecord) -> dict[str, float | None]:
    """Of the cards while it was measured, prompts included; null where a card does not say."""
    result = record.result
    if result is None or record.rates is None:
        return {"watts": None, "joules_a_token": None}
    watts = [summary.watts for summary in result.telemetry.values()]
    known = [value for value in watts if value is not None]
    tokens = sum(sample.predicted_n for sample in result.samples)
    return {
        "watts": sum(known) if known and len(known) == len(watts) else None,
        "joules_a_token": joules_a_token(result.telemetry, tokens),
    }


def _telemetry(record: TrialRecord) -> dict[str, Any]:
    if record.result is None:
        return {}
    return {device: summary.to_json() for device, summary in record.result.telemetry.items()}


def _memory(record: TrialRecord) -> dict[str, Any]:
    result = record.result
    if result is None:
        return {"buffers": {}, "free": {}}
    return {"buffers": dict(result.buffers_mib), "free": dict(result.free_mib)}


def _outcome(record: TrialRecord) -> dict[str, Any]:
    outcome = record.outcome
    if outcome is None:
        return {"kind": "none", "sentence": "running", "evidence": "", "inferred": False}
    return {
        "kind": outcome.kind.value,
        "sentence": outcome.sentence(),
        "evidence": outcome.evidence,
        "inferred": outcome.inferred,
    }


def _ratio(winner: TrialRecord, other: TrialRecord) -> float | None:
    if winner.score is None or other.score is None:
        return None
    return winner.score / other.score


def _counts(records: Sequence[TrialRecord]) -> dict[str, int]:
    """Trials by how they ended: `measured`, or the kind of outcome; `total` counts all."""
    counts: dict[str, int] = {"total": len(records)}
    for record in records:
        if record.outcome is None:
            name = "running"
        else:
            name = "measured" if record.score is not None else record.outcome.kind.value
        counts[name] = counts.get(name, 0) + 1
    return counts
