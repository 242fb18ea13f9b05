"""`tuner tune --prompts` with the user's own work, from end to end on the fake engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

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
    assert said == {
        "form": "sharegpt",
        "found": 5,
        "without_user": 1,
        "repeated": 1,
        "too_long": 1,
        "sampled": None,
    }
    assert best["workload"]["requests"] == 2


def asked(command: TunerCommand) -> list[str]:
    """Ids of the prompts that the only launch was asked."""
    (record,) = command.records()
    assert record.result is not None
    return [sample.prompt_id for sample in record.result.samples]


def without_requests(command: TunerCommand, *options: str) -> list[str]:
    words = command.words(*options, "--launches", "1")
    at = words.index("--requests")
    return [*words[:at], *words[at + 2 :]]


def test_without_requests_a_launch_asks_all_of_a_sample(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 40)
    ended = command.run(*without_requests(command, "--prompts", str(folder), "--sample", "8"))
    assert ended.code == 0, ended
    numbers = [int(name.removesuffix(".txt")) for name in asked(command)]
    assert [number // 5 for number in numbers] == list(
        range(8)
    )  # they are sorted by length as they are by name
    assert f"8 prompts of {folder}" in ended.stdout
    best = command.best()
    check_best(best)
    assert best["workload"]["requests"] == 8
    assert best["workload"]["prompt_set"]["sampled"] == 8
    assert best["workload"]["prompt_set"]["found"] == 40


def test_another_seed_draws_another_sample(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 40)
    drawn = []
    for study, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        command.study = command.results / study
        ended = command.tune(
            *("--prompts", str(folder), "--sample", "6", "--requests", "6"),
            *("--seed", seed, "--study", study, "--launches", "1"),
        )
        assert ended.code == 0
        drawn.append(asked(command))
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_sample_of_what_does_not_fit_is_none_of_it(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 3)
    (folder / "000.txt").write_text("long " * 5000, encoding="utf-8")
    ended = command.tune("--prompts", str(folder), "--sample", "3", "--requests", "3", "--launches", "1")
    assert f"--sample 3: {folder} has 2 prompts that fit, and all are taken" in ended.stdout
    assert asked(command) == ["001.txt", "002.txt"]


def test_with_requests_the_first_of_a_sample_are_asked(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 9)
    command.tune("--prompts", str(folder), "--sample", "9", "--requests", "2", "--launches", "1")
    assert asked(command) == ["000.txt", "001.txt"]


def test_without_either_the_first_five_are_asked_and_a_sample_is_named(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 6)
    ended = command.run(*without_requests(command, "--prompts", str(folder)))
    assert f"the first 5 of 6 prompts of {folder} are asked; --sample N draws N of them" in ended.stdout
    assert len(asked(command)) == 5


def test_a_study_goes_on_with_its_own_sample_only(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 9)
    options = ("--prompts", str(folder), "--requests", "9", "--launches", "1")
    command.tune(*options, "--sample", "4")
    ended = command.run(*command.words(*options, "--sample", "5"))
    assert ended.code == 2
    assert "was made with something else: " in ended.stderr
    assert f"5 prompts of {folder}" in ended.stderr


# --- what is kept of them


def written(command: TunerCommand, *folders: Path) -> dict[str, bytes]:
    """Every file of a study, and of further folders, by name."""
    files = (path for folder in (command.study, *folders) for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def answers(command: TunerCommand) -> list[str]:
    """Texts of answers that are kept with the trials."""
    return [
        sample["text"]
        for path in sorted(command.study.glob("trials/*/result.json"))
        for sample in json.loads(path.read_text(encoding="utf-8"))["samples"]
    ]


LOOKING = ("--quality", "2s", "--confirm", "2", "--endure", "2s", "--launches", "4")


def test_neither_prompts_nor_answers_are_on_disk(command: TunerCommand) -> None:
    command.fake.when({"split-mode": "tensor"}, crash="request")
    folder = a_folder(command.folder, 4)
    data = command.folder / "facts"
    options = ("--prompts", str(folder), "--requests", "4", "--facts", str(data), *LOOKING)
    command.tune(*options)
    files = written(command, data)
    assert any(name.endswith("answers.json") for name in files)
    assert set(answers(command)) == {""}
    for name, content in files.items():
        assert SECRET.encode() not in content, name

    command.study = command.results / "told"
    command.tune(*options, "--study", "told", "--keep-text")
    (text, *_) = [one for one in answers(command) if one]
    for name, content in files.items():
        assert text[:20].encode() not in content, name


def test_a_study_without_text_goes_on_comparing(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 4)
    options = ("--prompts", str(folder), "--requests", "4", "--quality", "2s")
    command.tune(*options, "--launches", "2")
    command.tune(*options, "--launches", "4")
    _, before, *after = [record.result.quality for record in command.records() if record.result]
    compared = [one.answers_alike for one in (before, *after) if one]
    assert len(compared) > 1
    assert set(compared) == {1.0}


def test_answers_to_prompts_of_the_package_are_kept(command: TunerCommand) -> None:
    command.tune("--launches", "1")
    assert all(answers(command))


FLAGS = (("-v",), ("-lv", "5"), ("--log-verbosity", "9"), ("--log-prompts-dir", "told"))


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_a_flag_that_tells_the_log_is_refused(command: TunerCommand, flags: tuple[str, ...]) -> None:
    folder = a_folder(command.folder, 1)
    for words in (
        ("--prompts", str(folder), "--", *flags),
        ("--prompts", str(folder), "--current", f"llama-server -m x.gguf {' '.join(flags)}"),
    ):
        ended = command.run(*command.words(*words))
        assert ended.code == 2
        assert f"{' '.join(flags)} makes llama-server write down what it is asked" in ended.stderr
        assert not command.study.exists()


@pytest.mark.parametrize(
    "words", [("--keep-text", "--", "-lv", "5"), ("--", "-lv", "4"), ("--prompts", "short", "--", "-lv", "5")]
)
def test_a_log_may_say_what_is_no_secret(command: TunerCommand, words: tuple[str, ...]) -> None:
    folder = a_folder(command.folder, 1)
    ended = command.run(*command.words("--prompts", str(folder), "--dry-run", *words))
    assert ended.code == 0, ended


def test_a_variable_that_tells_the_log_is_refused(command: TunerCommand) -> None:
    folder = a_folder(command.folder, 1)
    current = "LLAMA_ARG_LOG_VERBOSITY=5 llama-server -m x.gguf"
    ended = command.run(*command.words("--prompts", str(folder), "--current", current))
    assert ended.code == 2
    assert "LLAMA_ARG_LOG_VERBOSITY=5 makes llama-server write down" in ended.stderr


def test_an_export_with_a_fault_ends_with_its_place_and_writes_nothing(command: TunerCommand) -> None:
    path = command.folder / "chats.json"
    path.write_text('[{"conversations": []}, {"conversations": 1}]', encoding="utf-8")
    ended = command.run(*command.words("--prompts", str(path)))
    assert ended.code == 2
    assert f'{path}, entry 2: "conversations" is a number' in ended.stderr
    assert not command.study.exists()
