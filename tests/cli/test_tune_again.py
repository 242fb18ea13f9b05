"""Runs that are cut off, stopped, gone on with, or refused because another goes on."""

from __future__ import annotations

import signal

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.tuner_command import DEADLINE_S, Made, TunerCommand, kinds, lives, make_study
from tuner.core.outcome import Kind
from tuner.report.best import check_best

# --- going on


def test_study_in_parts_is_the_study_in_one(command: TunerCommand, made: Made) -> None:
    """Nothing is done twice, and proposals come from what is recorded, not from how often it was started."""
    for launches, before in ((4, 0), (4, 4), (10, 4)):
        said = make_study(command, launches).said
        assert (f"{before} trials are recorded" in said) == (before > 0)
        assert len(command.launches()) == launches
    parts = [(record.key, record.score) for record in command.records()]
    assert parts == [(record.key, record.score) for record in made.command.records()[:10]]


TWO_STARTS = """
schema_version = 1
[parameters.split-mode]
kind = "choice"
choices = ["layer", "tensor"]
[parameters.tensor-split]
kind = "split"
tensor_steps = 20
[[start]]
about = "by layer"
split-mode = "layer"
tensor-split = [1, 1]
[[start]]
about = "by tensor"
split-mode = "tensor"
tensor-split = [1, 1]
"""


def test_kill_9_in_a_trial_loses_that_trial_at_most(command: TunerCommand) -> None:
    space = command.folder / "two.toml"
    space.write_text(TWO_STARTS, encoding="utf-8")
    command.fake.when({"split-mode": "tensor", "tensor-split": "1,1"}, hang="first-token")
    with command.started("--launches", "5", "--space", str(space)) as tuner:
        command.wait_until(lambda: len(command.fake.events("request")) == 5)  # 2, 2, and one that hangs
        tuner.send_signal(signal.SIGKILL)
        tuner.wait(DEADLINE_S)
    before = command.records()
    orphan = command.launches()[-1]
    assert kinds(before) == [Kind.NONE, Kind.NONE, None]
    command.fake = FakeEngine(command.folder)  # with no rules

    command.tune("--launches", "4", "--space", str(space))
    assert not lives(orphan)
    records = command.records()
    assert kinds(records) == [Kind.NONE, Kind.NONE, Kind.STOPPED, Kind.NONE, Kind.NONE]
    assert [(r.key, r.score) for r in records[:2]] == [(r.key, r.score) for r in before[:2]]
    assert records[3].key == records[2].key  # the one that was cut off, and no other, again
    assert len({record.key for record in records}) == 4
    check_best(command.best())


@pytest.mark.parametrize(
    ("sign", "code", "hang", "requests"),
    [(signal.SIGINT, 130, "load", 2), (signal.SIGTERM, 143, "mid-stream", 3)],
)
def test_signal_stops_the_server_and_records_the_trial(
    command: TunerCommand, sign: signal.Signals, code: int, hang: str, requests: int
) -> None:
    command.fake.when({"fit": "off"}, hang=hang)
    with command.started("--launches", "5") as tuner:
        command.wait_until(lambda: len(command.launches()) == 2)
        command.wait_until(lambda: len(command.fake.events("request")) == requests)
        tuner.send_signal(sign)
        assert tuner.wait(DEADLINE_S) == code
    assert not any(lives(event) for event in command.launches())
    assert kinds(command.records()) == [Kind.NONE, Kind.STOPPED]
    check_best(command.best())
    said = (command.folder / "tuner.log").read_text(encoding="utf-8")
    assert "Stopping: " in said
    assert "The run ends: asked to stop." in said
    assert "Traceback" not in said


def test_second_signal_ends_at_once_and_leaves_no_server(command: TunerCommand) -> None:
    command.fake.when({"fit": "off"}, hang="load", ignore_sigterm=True)
    with command.started("--launches", "5") as tuner:
        command.wait_until(lambda: len(command.launches()) == 2)
        tuner.send_signal(signal.SIGINT)
        command.wait_until(lambda: "Stopping: " in (command.folder / "tuner.log").read_text(encoding="utf-8"))
        tuner.send_signal(signal.SIGINT)
        assert tuner.wait(DEADLINE_S) == 130
    command.wait_until(lambda: not any(lives(event) for event in command.launches()))


@pytest.mark.parametrize("study", ["mine", "other"])
def test_second_tuner_is_refused_and_told_who_holds_the_devices(command: TunerCommand, study: str) -> None:
    command.fake.always(hang="load")
    with command.started("--launches", "1") as tuner:
        command.wait_until(command.launches)
        ended = command.run(*command.words("--launches", "1", "--study", study))
        assert ended.code == 2
        (line,) = ended.stderr.splitlines()
        assert line.startswith("error: ")
        assert f"process {tuner.pid}" in line
        assert len(command.launches()) == 1
        assert not (command.results / "other" / "study.db").exists()
        tuner.send_signal(signal.SIGTERM)
        tuner.wait(DEADLINE_S)
