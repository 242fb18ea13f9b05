from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.bench.search import main
from tests.bench.search_run import NEVER, Job, Run, search, summary
from tests.bench.strategies import STRATEGIES, missing
from tests.bench.task import task_of
from tests.support.played_rigs import RIGS, simulated
from tuner.core.outcome import Kind

if TYPE_CHECKING:
    from pathlib import Path

RIG = "rtx4070s-3060-8b"
SMALL = ["--only", RIG, "--seeds", "2", "--launches", "10", "--strategies", "random,tpe,grid"]


def run(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main([*SMALL, *more]) == 0
    return capsys.readouterr().out


def test_the_json_has_the_form_that_others_read(capsys: pytest.CaptureFixture[str]) -> None:
    document: dict[str, Any] = json.loads(run(capsys, "--json"))
    assert set(document) == {"seeds", "rigs"}
    assert document["seeds"] == 2
    (rig,) = document["rigs"]
    assert set(rig) == {"rig", "best_tok_s", "strategies"}
    assert rig["rig"] == RIG
    assert [one["name"] for one in rig["strategies"]] == ["random", "tpe", "grid"]
    for one in rig["strategies"]:
        assert set(one) == {"name", "fraction", "launches_to_98", "oom_in_first_20"}
        assert set(one["fraction"]) == {"10", "20", "40", "80"}
        assert 0 < one["fraction"]["10"] <= 1
        assert one["fraction"]["20"] is one["fraction"]["80"] is None  # not so many launches were made
        assert one["launches_to_98"] is None or 1 <= one["launches_to_98"] < NEVER


def test_the_same_seeds_give_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--json") == run(capsys, "--json")


def test_the_table_names_rig_and_strategies(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys)
    assert RIG in text
    assert all(name in text for name in ("random", "tpe", "grid"))


def test_factors_are_rigs_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "--json", "--factors", "1,2", "--strategies", "grid"))
    assert [rig["rig"] for rig in document["rigs"]] == [RIG, f"{RIG} x2"]
    assert document["rigs"][0]["best_tok_s"] > document["rigs"][1]["best_tok_s"]


def test_a_strategy_that_lacks_a_library_is_left_out_with_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main([*SMALL, "--json", "--strategies", "grid,gp"]) == 0
    said = capsys.readouterr()
    assert "gp: left out, torch and scipy not installed" in said.err
    assert "pip install torch scipy" in said.err
    assert [one["name"] for one in json.loads(said.out)["rigs"][0]["strategies"]] == ["grid"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--only", "nothing"], "no rig 'nothing'; there are: 2x-rtx3090"),
        (["--strategies", "magic"], "no strategy 'magic'; there are tuner, random"),
        (["--factors", "0"], "--factors 0: must be above 0"),
    ],
)
def test_what_is_not_there_is_named(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert message in capsys.readouterr().err


def test_a_folder_of_other_rigs_can_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (RIGS / f"{RIG}.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    argv = ["--rigs", str(tmp_path), "--seeds", "1", "--launches", "3", "--strategies", "grid", "--json"]
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)["rigs"][0]["rig"] == "mine"


def test_a_broken_rig_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.toml").write_text("colour = 1\n", encoding="utf-8")
    assert main(["--rigs", str(tmp_path)]) == 2
    assert "broken.toml: colour: unknown key" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if missing(name) is None])
def test_the_default_comes_first_and_nothing_twice(strategy: str) -> None:
    done = search(Job(RIGS / "h200-pair.toml", 1.0, strategy, seed=1, launches=12))
    assert len(done.fractions) == len(done.kinds) == 12
    default = simulated("h200-pair").true_rate(simulated("h200-pair").engine_default())
    assert default is not None
    best = simulated("h200-pair").best(task_of(simulated("h200-pair")).bound)[1]
    assert done.fractions[0] == pytest.approx(default / best)


def test_the_space_is_what_the_rig_can_do() -> None:
    space = task_of(simulated(RIG)).bound.space
    kinds = space.parameter("spec-type")
    assert getattr(kinds, "choices", ()) == ("none", "ngram-mod")
    assert space.parameter("spec-draft-n-max") is None


def test_a_search_that_never_gets_there_counts_as_81_launches() -> None:
    job = Job(RIGS / f"{RIG}.toml", 1.0, "grid", 0, 40)
    never, late = Run(job, (0.5,) * 40, (Kind.NONE,) * 40), Run(job, (0.5,) * 30 + (0.99,) * 10, ())
    assert never.launches_to_goal == 81
    assert summary([never, never, late])["launches_to_98"] is None
    assert summary([never, late, late])["launches_to_98"] == 31
    assert summary([never])["oom_in_first_20"] == 0


def test_a_search_that_has_ended_keeps_what_it_found() -> None:
    ended = Run(Job(RIGS / f"{RIG}.toml", 1.0, "grid", 0, 80), (0.4, 0.9), (Kind.NONE,) * 2)
    assert [ended.fraction_after(mark) for mark in (10, 80)] == [0.9, 0.9]
