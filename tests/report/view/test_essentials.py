"""What a terminal says beside the verdict."""

from __future__ import annotations

from dataclasses import replace

from tests.report.test_best import FACTS
from tests.support.known_proofs import searched
from tests.support.played_night import played_night
from tuner.report.view.essentials import essentials
from tuner.report.view.inputs import ReportInputs


def test_a_night_is_told_in_a_few_sentences() -> None:
    said = essentials(played_night())
    assert said[0].startswith("By class, against the engine's own choice: code 3.")
    assert said[1].endswith("80 tok/s and more (not launched here).")
    assert said[3] == (
        "Launches that were not measured: out-of-memory at kv on CUDA0 (1), out-of-memory at weights on CUDA1 (1)."
    )
    assert said[4].startswith("What the speed depends on, by Optuna: ")
    assert said[5].startswith("Memory: CUDA0 (NVIDIA GeForce RTX 5080): ")
    assert said[7].startswith("CUDA0 was busy 88 % of the time while it generated")
    assert len(said) == 12


def test_what_is_not_known_is_not_told() -> None:
    assert essentials(ReportInputs(tuple(searched()), FACTS)) == []
    assert "by Optuna" not in "\n".join(essentials(replace(played_night(), importances={})))
