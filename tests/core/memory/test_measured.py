"""Predictions against what NVML showed: 63 launches of a 27B hybrid at 8 bits on two H200, build 11434.

`used_mib` is a card's memory in use after the last request, less what was taken on purpose beforehand.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.core.candidate import Candidate
from tuner.core.memory.predict import Predictor
from tuner.core.rig import Device

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "fixtures" / "memory" / "h200-pair.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
#: Launches in which the engine gave the pipeline up because its buffers did not fit: what it then took is less.
PLAIN = [row for row in ROWS if not row.get("without_pipeline")]
FELL_BACK = [row for row in ROWS if row.get("without_pipeline")]
#: As if the memory were stated: what is in use includes a context, which what the engine lists as free does not.
DEVICES = (
    Device("CUDA0", "H200", 143_155, 143_155, stated=True),
    Device("CUDA1", "H200", 143_155, 143_155, stated=True),
)
LARGEST_ERROR, LARGEST_ERROR_MIB = 0.03, 400


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(Splits(shaped(Shape())), DEVICES)


def errors_mib(predictor: Predictor, row: dict[str, object]) -> dict[str, tuple[float, float]]:
    """By device: measured less predicted, and measured."""
    options = Candidate.from_json(row["options"]).options  # type: ignore[arg-type]
    needs = predictor.predict(options).devices
    used = dict(zip(("CUDA0", "CUDA1"), row["used_mib"], strict=True))  # type: ignore[call-overload]
    return {name: (used[name] - need.total, used[name]) for name, need in needs.items()}


@pytest.mark.parametrize("row", PLAIN, ids=lambda row: row["name"])
def test_what_a_card_held_was_predicted(predictor: Predictor, row: dict[str, object]) -> None:
    for device, (error, used) in errors_mib(predictor, row).items():
        assert abs(error) <= max(LARGEST_ERROR * used, LARGEST_ERROR_MIB), f"{device}: {error:+.0f} of {used}"


def test_predictions_are_right_on_average(predictor: Predictor) -> None:
    """Two in three within 20 MiB, all within 100: the prior is these cards', and the arithmetic the engine's."""
    errors = [error for row in PLAIN for error, _ in errors_mib(predictor, row).values()]
    assert len(errors) > 100
    assert abs(fmean(errors)) < 20
    assert sorted(abs(error) for error in errors)[len(errors) * 2 // 3] < 20
    assert max(abs(error) for error in errors) < 100


@pytest.mark.parametrize("row", FELL_BACK, ids=lambda row: row["name"])
def test_a_pipeline_that_did_not_fit_was_predicted_larger(
    predictor: Predictor, row: dict[str, object]
) -> None:
    assert all(error < 0 for error, _ in errors_mib(predictor, row).values())


def test_what_is_believed_covers_what_was_seen(predictor: Predictor) -> None:
    """95 % of the cards within two standard deviations."""
    inside = total = 0
    for row in PLAIN:
        needs = predictor.predict(Candidate.from_json(row["options"]).options).devices
        for name, (error, _) in errors_mib(predictor, row).items():
            total += 1
            inside += abs(error) <= 2 * needs[name].sigma
    assert inside >= 0.95 * total
