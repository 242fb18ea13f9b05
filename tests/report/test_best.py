"""best.json says what was measured, satisfies its schema, and never says more."""

import json
import shlex
import subprocess
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from tests.support.trials import a_record, a_sample, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchResult
from tuner.core.outcome import Kind, Outcome, Stage
from tuner.core.telemetry import GpuSummary
from tuner.core.trial import TrialRecord
from tuner.report.best import best_document, check_best, schema, shell_command

DATE = "2026-03-01T04:05:06+01:00"
LAYER = Candidate.of({"split-mode": "layer", "tensor-split": (2, 3), "kv-unified": False})
TENSOR = Candidate.of({"split-mode": "tensor", "tensor-split": (1, 1), "GGML_CUDA_ALLREDUCE": "nccl"})
FACTS: dict[str, Any] = {
    "study": {"name": "s", "space": "dual-gpu", "seed": 1, "created": DATE},
    "engine": {"path": "/opt/llama-server", "digest": "ab", "version": "version: 1"},
    "devices": [
        {
            "name": "CUDA0",
            "description": "RTX 5080",
            "total_mib": 16303,
            "uuid": "GPU-1",
            "bus_id": "01:00.0",
            "memory_stated": False,
        }
    ],
    "model": {"path": "/m.gguf", "name": "m", "architecture": "llama", "size_bytes": 1, "fingerprint": "f"},
    "workload": {
        "prompts": "default",
        "digest": "d",
        "requests": 1,
        "max_tokens": 101,
        "ctx_size": 16384,
        "seed": 1,
        "thinking": "auto",
        "sampling": {"temperature": 0.0},
        "sampling_source": "default",
    },
}


def document(*records: TrialRecord) -> dict[str, Any]:
    made = best_document(records, FACTS, date=DATE)
    assert made is not None
    check_best(made)
    return made


def test_nothing_measured_gives_no_document() -> None:
    records = [a_record(0, LAYER, ended(Kind.OUT_OF_MEMORY)), a_record(1, TENSOR, None)]
    assert best_document(records, FACTS, date=DATE) is None


def test_the_winner_is_the_fastest_that_may_win_and_stands_beside_its_references() -> None:
    best = document(
        a_record(0, None, measured(40), reference=CURRENT),
        a_record(1, None, measured(50), reference=ENGINE_DEFAULT),
        a_record(2, LAYER, measured(80)),
        a_record(3, TENSOR, measured(100, Kind.DEGRADED)),
        a_record(4, TENSOR, ended(Kind.OUT_OF_MEMORY)),
    )
    assert best["winner"]["trial"] == 2
    assert best["winner"]["parameters"] == {
        "split-mode": "layer",
        "tensor-split": [2, 3],
        "kv-unified": False,
    }
    assert best["winner"]["rates"]["generation_tok_s"] == pytest.approx(80)
    assert [(r["name"], r["winner_ratio"]) for r in best["references"]] == [
        ("current", pytest.approx(2.0)),
        ("engine-default", pytest.approx(1.6)),
    ]
    assert best["study"]["trials"] == {"total": 5, "measured": 4, "out-of-memory": 1}


def test_a_reference_that_died_is_named_and_has_no_rate() -> None:
    died = LaunchResult(
        Outcome(Kind.OUT_OF_MEMORY, stage=Stage.RUNTIME, device="CUDA0", evidence="CUDA error")
    )
    best = document(a_record(0, None, died, reference=ENGINE_DEFAULT), a_record(1, LAYER, measured(10)))
    (reference,) = best["references"]
    assert reference["rates"] is None
    assert reference["winner_ratio"] is None
    assert reference["outcome"]["sentence"] == "out-of-memory at runtime on CUDA0"


def test_of_a_reference_measured_again_the_last_counts() -> None:
    best = document(
        a_record(0, None, ended(Kind.STOPPED), reference=ENGINE_DEFAULT),
        a_record(1, None, measured(10), reference=ENGINE_DEFAULT),
    )
    assert [r["trial"] for r in best["references"]] == [1]
    assert best["winner"]["reference"] == ENGINE_DEFAULT


def test_rates_are_given_by_class() -> None:
    samples = (
        a_sample(prompt_class="code", predicted_ms=1000.0, draft_n=100, draft_n_accepted=80),
        a_sample(prompt_class="prose", predicted_ms=2000.0),
    )
    best = document(a_record(0, LAYER, LaunchResult(Outcome(), samples=samples)))
    classes = best["winner"]["classes"]
    assert (classes["code"]["generation_tok_s"], classes["code"]["acceptance"]) == (pytest.approx(100), 0.8)
    assert (classes["prose"]["generation_tok_s"], classes["prose"]["acceptance"]) == (pytest.approx(50), None)
    assert best["winner"]["rates"]["generation_tok_s"] == pytest.approx(200 / 3)


def test_energy_is_null_without_a_driver_and_a_sum_over_cards_with_one() -> None:
    without = document(a_record(0, LAYER, measured(10)))
    assert without["winner"]["energy"] == {"watts": None, "joules_a_token": None}
    assert without["winner"]["telemetry"] == {}
    cards = {
        name: GpuSummary(samples=5, loaded_samples=5, span_s=1.0, energy_j=101.0, watts=100.0)
        for name in ("CUDA0", "CUDA1")
    }
    best = document(a_record(0, LAYER, replace(measured(10), telemetry=cards)))
    assert best["winner"]["energy"] == {"watts": 200.0, "joules_a_token": pytest.approx(2.0)}
    assert set(best["winner"]["telemetry"]) == {"CUDA0", "CUDA1"}


def test_the_schema_is_one_and_refuses_what_is_not_ours() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    best = document(a_record(0, LAYER, measured(10)))
    for broken in ({**best, "surprise": 1}, {**best, "schema_version": 2}, {"schema_version": 1}):
        with pytest.raises(jsonschema.ValidationError):
            check_best(broken)


def test_the_command_can_be_pasted() -> None:
    argv = ["printf", "%s|", "a b", "it's", "$HOME", 'q"q']
    command = shell_command(argv, {"NAME": "x y"})
    assert shlex.split(command) == ["NAME=x y", *argv]
    run = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout == "a b|it's|$HOME|q\"q|"


def test_the_document_is_plain_json() -> None:
    best = document(a_record(0, LAYER, measured(10)))
    assert json.loads(json.dumps(best, allow_nan=False)) == best
