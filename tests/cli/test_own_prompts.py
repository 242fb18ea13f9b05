"""`tuner tune --prompts` with the user's own work, from end to end on the fake engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tuner.report.best import check_best

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tuner_command import TunerCommand

SECRET = "heliotrope"
"""A word that nobody but the user's prompts has."""


def an_export(folder: Path, *questions: str) -> Path:
    """Chats, each with an answer that is cut off."""
    path = folder / "chats.json"
    chats = [
        {"conversations": [{"from": "human", "value": one}, {"from": "gpt", "value": "Sure."}]}
        for one in questions
    ]
    path.write_text(json.dumps(chats), encoding="utf-8")
    return path


def a_folder(folder: Path, n: int) -> Path:
    """Texts, each longer than the one before."""
    texts = folder / "texts"
    texts.mkdir()
    for number in range(n):
        text = f"{number}: say something about {SECRET}. " + "And more of it. " * number
        (texts / f"{number:03}.txt").write_text(text, encoding="utf-8")
    return texts


def test_a_folder_of_texts_is_asked(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 3)
    ended = command.tune("--prompts", str(folder), "--requests", "3", "--launches", "1")
    assert f"3 prompts of {folder}" in ended.stdout
    (record,) = command.records()
    assert record.result is not None
    assert [sample.prompt_id for sample in record.result.samples] == ["000.txt", "001.txt", "002.txt"]


def test_what_is_left_out_of_an_export_is_said_and_written_down(command: TunerCommand) -> None:
    path = an_export(command.folder, "One?", "Two?", "One?", " ", "word " * 5000)
    ended = command.tune("--prompts", str(path), "--requests", "9", "--launches", "1")
    for line in (
        f"1 of 5 conversations of {path} are left out: no user says anything in them",
        f"1 of 5 conversations of {path} are left out: they are there already",
        f"1 prompts of {path} do not fit into 2,048 tokens and are left out",
    ):
        assert line in ended.stdout
    best = command.best()
    check_best(best)
    said = best["workload"]["prompt_set"]
    assert len(said.pop("digest")) == 64
    assert said == {"form": "sharegpt", "found": 5, "without_user": 1, "repeated": 1, "too_long": 1}
    assert best["workload"]["requests"] == 2


def test_an_export_with_a_fault_ends_with_its_place_and_writes_nothing(command: TunerCommand) -> None:
    path = command.folder / "chats.json"
    path.write_text('[{"conversations": []}, {"conversations": 1}]', encoding="utf-8")
    ended = command.run(*command.words("--prompts", str(path)))
    assert ended.code == 2
    assert f'{path}, entry 2: "conversations" is a number' in ended.stderr
    assert not command.study.exists()
