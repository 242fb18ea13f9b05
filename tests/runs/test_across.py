"""Answers across builds: what was best against itself as it was, from what is kept in the trials' folders."""

import json
from pathlib import Path

import pytest

from tests.search.canary.test_arms import BEST, DEFAULT, OLD
from tests.support.launch_bench import WORKLOAD
from tests.support.played_server import next_token
from tests.support.trials import a_launch, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchSpec
from tuner.core.quality import Position, Probe
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.runs.across import KeepingGate, other_answers, plain_probe
from tuner.runs.quality_gate import Look
from tuner.runs.trial_folder import TrialFolder, write_json
from tuner.runs.works.probing import Probing


def probe(off_nats: float = 0.0, *, deep: int = 0, deep_off_nats: float = 0.0) -> Probe:
    shallow = [Position(f"0/{n}", 40, next_token(f"text {n}", off_nats)) for n in range(12)]
    below = [
        Position(f"deep/{n}", 2000, next_token(f"deep {n} {deep}", deep_off_nats), deep=True)
        for n in range(4 if deep else 0)
    ]
    return Probe((*shallow, *below), 1.0, deep)


def launched(folder: Path, *rows: tuple[str, Probe]) -> list[TrialRecord]:
    """Launches whose servers said that."""
    records = []
    for number, (key, said) in enumerate(rows):
        record = a_launch(number, key, measured(50.0), Errand(Purpose.CANARY, 1, number))
        place = TrialFolder.of(folder, number).path
        place.mkdir(parents=True)
        write_json(place / "next-tokens.json", said.to_json())
        records.append(record)
    return records


def answers(
    folder: Path, *rows: tuple[str, Probe], plain_then: Probe | None = None, old: str | None = OLD
) -> str | None:
    records = launched(folder, *rows)
    return other_answers(folder, records, best=BEST, previous=old, plain_then=plain_then)


def test_the_same_answers_are_no_change(tmp_path: Path) -> None:
    assert answers(tmp_path, (BEST, probe()), (OLD, probe()), (OLD, probe())) is None


def test_other_answers_are_told_with_how_far_they_are_off(tmp_path: Path) -> None:
    said = answers(tmp_path, (BEST, probe(0.05)), (OLD, probe()))
    assert said is not None
    assert said.startswith("what was best says other next tokens than before: 0.05 nats off at 12 places")


def test_what_the_old_build_differs_from_itself_is_noise(tmp_path: Path) -> None:
    rows = ((OLD, probe()), (BEST, probe(0.05)), (OLD, probe(0.03)))
    assert answers(tmp_path, *rows) is None


def test_deep_places_behind_other_texts_are_not_compared(tmp_path: Path) -> None:
    same = ((OLD, probe(deep=2000)), (BEST, probe(deep=2000, deep_off_nats=0.1)))
    (tmp_path / "same").mkdir()
    (tmp_path / "other").mkdir()
    assert answers(tmp_path / "same", *same) is not None
    other = ((OLD, probe(deep=4000)), (BEST, probe(deep=2000, deep_off_nats=0.1)))
    assert answers(tmp_path / "other", *other) is None


def test_without_the_old_build_the_plain_reference_is_compared_with_what_it_said(tmp_path: Path) -> None:
    said = answers(tmp_path, (DEFAULT, probe(0.05)), plain_then=probe(), old=None)
    assert said is not None
    assert said.startswith("the engine's own choice says other next tokens")


@pytest.mark.parametrize("rows", [(), ((BEST, probe(0.05)),), ((OLD, probe()),)])
def test_what_nobody_said_is_not_compared(tmp_path: Path, rows: tuple[tuple[str, Probe], ...]) -> None:
    assert answers(tmp_path, *rows) is None


def test_a_file_that_was_cut_says_nothing(tmp_path: Path) -> None:
    records = launched(tmp_path, (BEST, probe(0.05)), (OLD, probe()))
    (TrialFolder.of(tmp_path, 1).path / "next-tokens.json").write_text("{", encoding="utf-8")
    assert other_answers(tmp_path, records, best=BEST, previous=OLD, plain_then=None) is None


def test_the_gate_keeps_what_each_server_says(tmp_path: Path) -> None:
    gate = KeepingGate(1.0, WORKLOAD, tmp_path)
    spec = LaunchSpec(Candidate.from_json(json.loads(BEST)))
    look = Look(Probing(1.0), twice=False, probes=[probe(0.01)])
    place = TrialFolder.of(tmp_path, 0)
    place.path.mkdir(parents=True)
    gate.examined(measured(50.0), place, spec, look)
    kept = json.loads((place.path / "next-tokens.json").read_text(encoding="utf-8"))
    assert len(Probe.from_json(kept).positions) == 12


def test_the_plain_probe_of_a_study_is_the_references(tmp_path: Path) -> None:
    records = launched(tmp_path, (BEST, probe()), (DEFAULT, probe()))
    assert plain_probe(tmp_path, records) is None
    write_json(TrialFolder.of(tmp_path, 1).path / "probe.json", probe(0.02).to_json())
    found = plain_probe(tmp_path, records)
    assert found is not None
    assert len(found.positions) == 12
