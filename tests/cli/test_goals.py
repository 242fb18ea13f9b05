"""`tuner tune` with other goals than plain generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tuner_command import assert_refused
from tuner.report.best import check_best

if TYPE_CHECKING:
    from tests.support.tuner_command import TunerCommand

ERRORS = {
    (
        "--objective",
        "throughput",
    ): "--objective throughput: say for how many requests at once, such as --parallel 4",
    (
        "--objective",
        "throughput",
        "--parallel",
        "2",
        "--weights",
        "code=1",
    ): "--weights: throughput adds up all slots",
    ("--parallel", "0"): "--parallel: must be at least 1, got 0",
    ("--weights", "poems=1"): "--weights: short has no prompt of the class 'poems'; it has code, prose",
    ("--weights", "code"): "--weights: 'code' is not understood; write CLASS=NUMBER, such as code=3,prose=1",
    ("--weights", "code=-1"): "--weights: 'code=-1' is not understood",
    ("--weights", "code=0"): "--weights: at least one class has to count",
    ("--max-ttft", "2s"): "--max-ttft: '2s' is not understood; write TIME@TOKENS, such as 2s@8k",
    (
        "--max-ttft",
        "2s@64k",
    ): "--max-ttft: a prompt of 65,536 tokens does not fit into 2,048 tokens of context",
    ("--max-ttft", "soon@1k"): "--max-ttft: 'soon' is no duration",
    ("--depth", "deep"): "--depth: 'deep' is no number of tokens",
    ("--depth", "8k"): "behind 8,192 tokens of another text, fits into 2,048 tokens of context",
    ("--parallel", "2", "--", "-np", "4"): "--parallel and a flag after -- both set the slots",
}


@pytest.mark.parametrize(("options", "message"), ERRORS.items(), ids=[" ".join(words) for words in ERRORS])
def test_a_goal_that_makes_no_sense_is_one_line(
    command: TunerCommand, options: tuple[str, ...], message: str
) -> None:
    ended = command.run(*command.words(*options))
    assert_refused(ended, message)
    assert command.launches() == []


def test_a_turn_is_told_in_seconds(command: TunerCommand) -> None:
    said = command.tune("--objective", "turn", "--launches", "3").stdout
    assert "s a turn" in said
    assert "a turn" in said[said.index("Result") :]
    best = command.best()
    check_best(best)
    assert best["workload"]["goal"] == {"objective": "turn", "weights": {}, "max_ttft": None}
    winner = best["winner"]
    tokens = 8
    assert winner["score_tok_s"] == pytest.approx(tokens / winner["rates"]["turn_s"])
    assert "for turn" in command.run("tune", *command.words()[1:]).stderr  # another goal is another study


def test_only_classes_that_count_are_asked_and_all_of_them(command: TunerCommand) -> None:
    said = command.tune("--weights", "prose=1,code=3", "--launches", "2").stdout
    assert "By class: code " in said
    best = command.best()
    assert best["workload"]["requests"] == 2  # one was asked for, and two classes count
    assert set(best["winner"]["classes"]) == {"code", "prose"}
    asked = [event["body"]["messages"] for event in command.fake.events("request")]
    assert len(asked) == 2 * (2 + 1)


def test_prompts_are_asked_at_each_depth_and_told_by_it(command: TunerCommand) -> None:
    said = command.tune("--depth", "0,512", "--launches", "2").stdout
    assert "By depth in the context: 0 tokens " in said
    winner = command.best()["winner"]
    assert list(winner["depths"]) == ["0", "512"]
    assert [winner["depths"][depth]["requests"] for depth in ("0", "512")] == [1, 1]
    bodies = [event["body"] for event in command.fake.events("request")]
    assert {body["cache_prompt"] for body in bodies if len(body["messages"]) > 2} == {True}


def test_all_slots_are_kept_busy_and_added_up(command: TunerCommand) -> None:
    said = command.tune("--objective", "throughput", "--parallel", "2", "--launches", "4").stdout
    assert "tok/s in all" in said
    best = command.best()
    check_best(best)
    assert best["workload"]["streams"] == 2
    assert best["workload"]["requests"] == 6
    winner = best["winner"]
    assert winner["parameters"].get("parallel", 2) == 2
    assert winner["score_tok_s"] == winner["rates"]["aggregate_tok_s"]
    assert winner["rates"]["generation_tok_s"] is not None
    assert winner["rates"]["ttft_s"] is not None
    assert any(record.candidate is not None and not record.candidate.drafts for record in command.records())


def test_a_limit_of_the_first_token_is_asked_for_once_a_launch(command: TunerCommand) -> None:
    command.tune("--max-ttft", "30s@1k", "--launches", "2")
    winner = command.best()["winner"]
    assert winner["classes"]["first-token"]["requests"] == 1
    assert winner["rates"]["requests"] == 1
    assert command.best()["workload"]["goal"]["max_ttft"] == {"seconds": 30.0, "tokens": 1024}
