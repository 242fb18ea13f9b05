"""Commands that a run tells what it has found: what they are told, when, and that they cost no night."""

from __future__ import annotations

import itertools
import json
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tuner_command import DEADLINE_S, ROOT, TunerCommand, assert_refused, lives
from tuner.cli import notify

if TYPE_CHECKING:
    from pathlib import Path


def writes(path: Path) -> str:
    """A command that appends what it is told, and what its variables say, to a file."""
    variables = 'printf \'"%s", "%s"]\\n\' "$SPLIT_RATIO_EVENT" "$SPLIT_RATIO_STUDY"'
    return f"{{ printf '['; tr -d '\\n'; printf ', '; {variables}; }} >> {shlex.quote(str(path))}"


def told(path: Path) -> list[tuple[Any, str, str]]:
    """What it was told: the JSON, the event and the study."""
    if not path.exists():
        return []
    return [tuple(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def test_improvements_are_told_as_they_come_and_the_end_once(command: TunerCommand) -> None:
    better, end = command.folder / "better", command.folder / "the end"
    command.tune(
        "--launches", "8", "--on-improvement", writes(better), "--on-finish", writes(end), space="dual-gpu"
    )
    best = command.best()

    rows = told(better)
    assert {(event, study) for _, event, study in rows} == {("improvement", str(command.study))}
    winners = [document["winner"] for document, *_ in rows]
    assert all(winner["reference"] is None for winner in winners)
    assert all(one["parameters"] != two["parameters"] for one, two in itertools.pairwise(winners))
    assert winners[-1] == best["winner"]

    assert told(end) == [(best, "finish", str(command.study))]


def test_what_was_known_before_is_no_news(command: TunerCommand) -> None:
    better = command.folder / "better"
    command.tune("--launches", "5", space="dual-gpu")
    command.tune("--launches", "5", "--on-improvement", writes(better), space="dual-gpu")
    assert told(better) == []


def test_the_end_is_told_whatever_it_was(command: TunerCommand) -> None:
    """Nothing was measured: there is no best.json, and why it ended stands in a variable."""
    end, why = command.folder / "end", command.folder / "why"
    command.fake.always(oom={"stage": "weights", "device": 0})
    words = command.words(
        "--launches",
        "2",
        "--on-finish",
        f'{writes(end)}; printf %s "$SPLIT_RATIO_WHY" > {shlex.quote(str(why))}',
    )
    assert command.run(*words).code == 1
    assert told(end) == [(None, "finish", str(command.study))]
    assert "all 2 launches are made" in why.read_text(encoding="utf-8")


def test_an_error_that_ends_the_run_is_why(command: TunerCommand) -> None:
    why = command.folder / "why"
    command.fake.always(exit=1, log="error: invalid argument: --new-flag")  # no candidate could do better
    ended = command.run(*command.words("--on-finish", f'printf %s "$SPLIT_RATIO_WHY" > {why}'))
    assert ended.code == 2
    assert why.read_text(encoding="utf-8").strip()
    assert why.read_text(encoding="utf-8")[:40] in ended.stderr


def test_the_devices_are_free_when_the_end_is_told(command: TunerCommand) -> None:
    """So that the command may be `tuner serve`."""
    taken = (
        "from tuner.rig.lock import RigLock\nwith RigLock(('CUDA0:NVIDIA GeForce RTX 5080',)): print('free')"
    )
    said = command.folder / "said"
    lock = f"cd {ROOT} && {shlex.quote(sys.executable)} -c {shlex.quote(taken)} > {shlex.quote(str(said))}"
    command.tune("--launches", "1", "--on-finish", lock)
    assert said.read_text(encoding="utf-8") == "free\n"


def test_ctrl_c_is_an_end_too(command: TunerCommand) -> None:
    end = command.folder / "end"
    command.fake.always(hang="load")
    with command.started("--on-finish", writes(end)) as process:
        command.wait_until(command.launches)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 128 + signal.SIGINT
    assert [event for _, event, _ in told(end)] == ["finish"]


@pytest.mark.parametrize("option", ["--on-improvement", "--on-finish"])
def test_a_command_that_fails_is_said_and_costs_nothing(command: TunerCommand, option: str) -> None:
    said = command.tune("--launches", "3", option, "exit 3").stdout
    assert f"{option} 'exit 3' ended with 3" in said
    assert "The run ends: all 3 launches are made." in said
    assert len(command.records()) == 3


def test_a_command_that_reads_nothing_is_no_failure(command: TunerCommand) -> None:
    assert "--on-finish" not in command.tune("--launches", "1", "--on-finish", "exec <&-; true").stdout


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(
    command: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "IMPROVEMENT_S", 1.0)
    pid = command.folder / "pid"
    said = command.tune("--launches", "3", "--on-improvement", f"sleep 1000 & echo $! > {pid}; wait").stdout
    assert "did not end within 1 s and was ended" in said
    assert "The run ends: all 3 launches are made." in said
    assert not lives({"pid": int(pid.read_text(encoding="utf-8"))})


def test_a_ladder_tells_its_rungs_and_its_table(command: TunerCommand) -> None:
    better, end = command.folder / "better", command.folder / "end"
    command.tune(
        *("--context", "1k,2k", "--launches", "3"),
        *("--on-improvement", writes(better), "--on-finish", writes(end)),
    )
    studies = {study for _, _, study in told(better)}
    assert studies <= {str(command.study / "1024"), str(command.study / "2048")}
    assert studies
    ladder = json.loads((command.study / "ladder.json").read_text(encoding="utf-8"))
    assert told(end) == [(ladder, "finish", str(command.study))]


def test_bad_input_is_no_end_of_a_run(command: TunerCommand) -> None:
    end = command.folder / "end"
    assert_refused(command.run(*command.words("--devices", "CUDA7", "--on-finish", writes(end))), "CUDA7")
    assert_refused(command.run(*command.words("--on-finish", " ")), "--on-finish: is empty")
    command.run(*command.words("--dry-run", "--on-finish", writes(end)))
    assert not end.exists()
