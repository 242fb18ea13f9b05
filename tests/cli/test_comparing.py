"""`tuner show ONE OTHER`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.tuner_command import Made, TunerCommand, assert_refused

if TYPE_CHECKING:
    from pathlib import Path


def shown(command: TunerCommand, one: str, other: str, code: int = 0) -> str:
    ended = command.run("show", one, other, "--results", str(command.results))
    assert ended.code == code, ended
    return ended.stdout


def best_of(made: Made, folder: Path, **changes: object) -> str:
    """The study's best.json in a file of its own, with some of its parts changed."""
    path = folder / f"{'-'.join(changes) or 'same'}.json"
    path.write_text(json.dumps(made.command.best() | changes), encoding="utf-8")
    return str(path)


def test_a_study_and_its_best_json_are_the_same(made: Made, tmp_path: Path) -> None:
    said = shown(made.command, "mine", best_of(made, tmp_path))
    assert said.splitlines()[0] == "Rig, engine, model, workload and winner are the same."
    assert " is 1.00x as fast as mine: " in said


def test_another_engine_is_named_and_compared(made: Made, tmp_path: Path) -> None:
    engine = made.command.best()["engine"] | {"digest": "0123456789abcdef", "version": "version: 99"}
    said = shown(made.command, "mine", best_of(made, tmp_path, engine=engine))
    assert "What differs" in said
    assert "version: 99 [0123456789ab]" in said
    assert "1.00x as fast" in said


def test_another_rig_is_shown_and_refused(made: Made, tmp_path: Path) -> None:
    first, *rest = made.command.best()["devices"]
    path = best_of(made, tmp_path, devices=[first | {"uuid": "GPU-of-somebody"}, *rest])
    ended = made.command.run("show", "mine", path, "--results", str(made.command.results))
    assert_refused(ended, "cannot be compared: another rig (", "GPU-of-somebody")
    assert "What differs" in ended.stdout


def test_what_is_no_result_is_refused(made: Made, tmp_path: Path) -> None:
    results = ("--results", str(made.command.results))
    text = tmp_path / "text.json"
    text.write_text("not json", encoding="utf-8")
    assert_refused(
        made.command.run("show", "mine", str(text), *results), str(text), "cannot be read as a best.json"
    )
    text.write_text("{}", encoding="utf-8")
    assert_refused(
        made.command.run("show", str(text), "mine", *results), "is no best.json of this version: $: "
    )
    assert_refused(made.command.run("show", "mine", "yours", *results), "yours: no study there")
    assert_refused(made.command.run("show", "mine", "mine", "--csv", *results), "--csv: of one study")


def test_a_study_in_which_nothing_was_measured_is_not_compared(command: TunerCommand) -> None:
    command.fake.always(oom={"stage": "weights", "device": 0})
    command.run(*command.words("--launches", "1"))
    ended = command.run("show", "mine", "mine", "--results", str(command.results))
    assert_refused(ended, "nothing was measured yet")
