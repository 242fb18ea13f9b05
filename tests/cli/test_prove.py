"""`tuner tune` to a proven winner, on the fake engine: what wrong, cold and hanging servers do not get away with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.tuner_command import TunerCommand
from tuner.cli.build import assembly as assembly_module
from tuner.core.trial import Purpose
from tuner.engine.client import Deadlines
from tuner.engine.patience import Patiences
from tuner.report.best import check_best

if TYPE_CHECKING:
    from pathlib import Path

#: Everything that can be varied is worth the same on this fake, but for what a test says of one of them.
SPACE = """
schema_version = 1
about = "Two ways to run on one card."

[fixed]
gpu-layers = 999
split-mode = "none"
device = ["CUDA0"]

[parameters.ubatch-size]
kind = "choice"
choices = [256, 512]
"""
ODD = {"ubatch-size": "256"}


@pytest.fixture
def command(tmp_path: Path) -> TunerCommand:
    made = TunerCommand(tmp_path, FakeEngine(tmp_path).always(tok_s=100, prompt_tok_s=4000))
    (tmp_path / "two.toml").write_text(SPACE, encoding="utf-8")
    return made


def prove(command: TunerCommand, *options: str) -> dict[str, Any]:
    """A whole run with a proof; best.json."""
    command.tune(
        *("--launches", "3", "--requests", "3", "--confirm", "2", "--quality", "0.3s", "--endure", "1s"),
        *options,
        space=str(command.folder / "two.toml"),
    )
    best = command.best()
    check_best(best)
    return best


def test_two_equal_ones_are_called_equal(command: TunerCommand) -> None:
    best = prove(command)
    confirmation = best["confirmation"]
    assert confirmation["finished"]
    runner_up = confirmation["runner_up"]
    assert runner_up["ratio"] == pytest.approx(1.0)
    assert runner_up["significant"] is False
    assert "no significant difference" in runner_up["sentence"]
    assert best["winner"]["parameters"]["ubatch-size"] == 512  # the plainer command
    assert confirmation["tie_broken_by"] == "plainness"


def test_the_winner_is_compared_with_the_reference_and_goes_through_its_soak(command: TunerCommand) -> None:
    command.fake.when({"device": None}, tok_s=50)
    best = prove(command)
    (against,) = best["confirmation"]["references"]
    assert against["name"] == "engine-default"
    assert against["ratio"] == pytest.approx(2.0, rel=0.01)
    assert against["significant"] is True
    assert against["launches_a_side"] == 2
    assert best["winner"]["rates"]["requests"] == 2 * 3
    soak, endurance = best["soak"], best["endurance"]
    assert soak["outcome"] == "none"
    assert 1500 < soak["longest_prompt_tokens"] < 2048 == soak["slot_context"]
    assert soak["free_mib"] is None
    assert endurance["failures"] == 0
    assert endurance["requests"] > 6
    assert "0 failures" in endurance["sentence"]
    quality = best["winner"]["quality"]
    assert quality["objection"] is None
    assert quality["loss"]["positions"] > 20
    assert quality["loss"]["kl_nats"] == 0.0


def test_one_that_is_faster_and_answers_nonsense_never_wins(command: TunerCommand) -> None:
    command.fake.when(ODD, tok_s=105, nonsense=True)
    best = prove(command)
    assert best["winner"]["parameters"]["ubatch-size"] == 512
    assert best["study"]["trials"]["measured"] > 2
    odd = next(r for r in command.records() if r.candidate and r.candidate.get("ubatch-size") == 256)
    assert odd.outcome is not None
    assert odd.outcome.kind == "degraded"
    assert odd.score == pytest.approx(105, rel=0.01)


def test_one_whose_distributions_alone_are_wrong_never_wins(command: TunerCommand) -> None:
    """Its greedy answers look well; a q4_0 cache is of this kind."""
    command.fake.when(ODD, tok_s=105, kl=0.03)
    best = prove(command)
    assert best["winner"]["parameters"]["ubatch-size"] == 512
    odd = next(r for r in command.records() if r.candidate and r.candidate.get("ubatch-size") == 256)
    assert odd.outcome is not None
    assert "nats off the plain reference's" in odd.outcome.evidence


def test_one_that_is_faster_only_while_cold_does_not_win(command: TunerCommand) -> None:
    command.fake.when(ODD, cold={"requests": 5, "factor": 1.3})
    best = prove(command)
    assert best["winner"]["parameters"]["ubatch-size"] == 512
    (gone,) = best["disqualified"]
    assert gone["parameters"]["ubatch-size"] == 256
    assert "small requests are 23% slower" in gone["why"]
    assert best["soak"]["outcome"] == "none"


def test_one_that_hangs_after_it_was_left_alone_does_not_win(
    command: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly_module, "GAPS_S", (0.4,))
    monkeypatch.setattr(Patiences, "request", lambda *_, **__: Deadlines(1.0, 1.0, 3.0))
    command.fake.when(ODD, tok_s=105, hang="after-idle", idle_s=0.35)
    best = prove(command)
    assert best["winner"]["parameters"]["ubatch-size"] == 512
    (gone,) = best["disqualified"]
    assert gone["parameters"]["ubatch-size"] == 256
    assert "hung" in gone["why"]
    assert best["endurance"]["longest_gap_s"] == pytest.approx(0.4)
    assert {record.errand.purpose for record in command.records()} == {
        Purpose.SEARCH,
        Purpose.CONFIRM,
        Purpose.SOAK,
        Purpose.ENDURE,
    }


def test_the_same_command_launches_nothing_more(command: TunerCommand) -> None:
    prove(command)
    before = len(command.launches())
    prove(command)
    assert len(command.launches()) == before


def test_a_small_kv_type_is_only_searched_when_it_is_wanted(command: TunerCommand) -> None:
    small = SPACE.replace("ubatch-size", "cache-type-k").replace("[256, 512]", '["q8_0", "q4_0"]')
    (command.folder / "two.toml").write_text(small, encoding="utf-8")
    said = command.tune("--launches", "4", space=str(command.folder / "two.toml")).stdout
    assert "cache-type-k q4_0: dropped, it is below --min-kv q8_0" in said
    assert {r.candidate.get("cache-type-k") for r in command.records() if r.candidate} == {"q8_0"}
