"""`tuner check` of commands that were written for another build."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_engine import fake_server_path
from tests.support.shape_gguf import Shape, write_shape
from tests.support.tuner_command import Ended, TunerCommand, assert_refused

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tuner(tmp_path: Path) -> TunerCommand:
    return TunerCommand(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "shape.gguf"
    write_shape(path, None, Shape())
    return shlex.quote(str(path))


def engine(folder: Path, build: int) -> Path:
    """A llama-server of another build."""
    path = folder / str(build) / "llama-server"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nFAKE_HELP={build} exec {fake_server_path()} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def translation(ended: Ended) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(ended.stdout)["translation"]
    return found


def changes(ended: Ended) -> list[tuple[str, str, str]]:
    found = translation(ended)
    assert found is not None
    return [(one["kind"], one["before"], one["after"]) for one in found["changes"]]


def test_command_of_an_old_build_is_printed_as_the_new_one_takes_it(tuner: TunerCommand, model: str) -> None:
    server = str(tuner.fake.path)
    command = f"llama-server -m {model} -c 8192 -np 1 --no-mmap --draft-max 16 -cd 4096"
    ended = tuner.run("check", command, "--server", server)
    assert ended.code == 1
    assert "For this llama-server, from build 9095, as its flags tell:" in ended.stdout
    assert f"\n{server} -m " in ended.stdout
    assert " -c 8192 -np 1 --load-mode none --spec-draft-n-max 16 --timeout 600" in " ".join(
        ended.stdout.split()
    )
    said = " ".join(ended.stdout.split())
    assert "renamed --no-mmap -> --load-mode none: one flag" in said
    assert "lost cannot be carried over: -cd 4096: a draft has as much context" in said
    assert "pinned --timeout 600: the default was 600 and is 3600" in said


def test_translated_command_has_nothing_against_it(tuner: TunerCommand, model: str) -> None:
    server = str(tuner.fake.path)
    command = f"llama-server -m {model} -ngl 999 -c 8192 -np 1 --no-mmap --mlock"
    found = translation(tuner.run("check", command, "--server", server, "--json"))
    assert found is not None
    again = tuner.run("check", found["command"], "--server", server, "--json")
    assert (again.code, translation(again)) == (0, None)


def test_memory_and_the_line_that_works_are_those_of_the_translated_command(
    tuner: TunerCommand, model: str
) -> None:
    command = f"llama-server -m {model} -ngl 999 -c 8192 -np 1 -ts 9,1 --no-mmap"
    ended = tuner.run("check", command, "--server", str(tuner.fake.path), "--json")
    works = json.loads(ended.stdout)["works"]["command"]
    assert "--load-mode none" in works
    assert "--no-mmap" not in works


def test_commands_own_llama_server_tells_what_its_defaults_were(
    tuner: TunerCommand, model: str, tmp_path: Path
) -> None:
    old = engine(tmp_path, 9246)
    ended = tuner.run(
        "check", f"{old} -m {model} -md y -c 8192 -np 1", "--server", str(tuner.fake.path), "--json"
    )
    found = translation(ended)
    assert found is not None
    assert (found["from"], found["to"]) == (str(old), "this llama-server")
    assert ("pinned", "", "--spec-type draft-simple") in changes(ended)
    assert ("pinned", "", "--load-mode mmap") in changes(ended)


def test_build_that_a_command_is_for_can_be_given(tuner: TunerCommand, model: str, tmp_path: Path) -> None:
    command = f"llama-server -m {model} -c 8192 -np 1"
    server = ("--server", str(tuner.fake.path), "--json")
    assert translation(tuner.run("check", command, *server)) is None
    by_number = tuner.run("check", command, *server, "--from", "9246")
    by_path = tuner.run("check", command, *server, "--from", str(engine(tmp_path, 9246)))
    assert changes(by_number) == changes(by_path)
    assert ("pinned", "", "--timeout 600") in changes(by_number)


def test_command_that_its_engine_takes_is_printed_for_the_newest_known_build(
    tuner: TunerCommand, model: str, tmp_path: Path
) -> None:
    old = engine(tmp_path, 10435)
    ended = tuner.run("check", f"{old} -m {model} -ngl 999 -c 8192 -np 1 --no-mmap", "--json")
    found = translation(ended)
    assert found is not None
    assert found["to"] == "build 11434, the newest known here"
    assert found["command"].startswith("llama-server -m ")
    assert ("renamed", "--no-mmap", "--load-mode none") in changes(ended)
    assert not any(one["level"] == "problem" for one in json.loads(ended.stdout)["findings"])
    newest = engine(tmp_path, 11434)
    assert translation(tuner.run("check", f"{newest} -m {model} -c 8192 -np 1", "--json")) is None


def test_best_of_a_study_is_printed_for_a_new_engine(tuner: TunerCommand, tmp_path: Path) -> None:
    old, new = engine(tmp_path, 9246), engine(tmp_path, 11434)
    words = ["--server", str(old), "--launches", "3"]
    tuner.tune(*words)
    results = ("--results", str(tuner.results))
    ended = tuner.run("check", "mine", *results, "--server", str(new), "--json")
    found = translation(ended)
    assert found is not None
    assert found["from"] == str(old)
    assert found["command"].startswith(f"{new} ")
    assert ("pinned", "", "--timeout 600") in changes(ended)


def test_without_any_engine_flags_are_checked_and_translated_for_the_newest_known_build(
    tuner: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    ended = tuner.run("check", "llama-server -m gone.gguf -c 8192 -np 1 --mlock", "--json")
    document = json.loads(ended.stdout)
    assert (ended.code, document["engine"], document["devices"]) == (1, None, [])
    assert "no llama-server here" in document["findings"][0]["text"]
    assert changes(ended)[0] == ("renamed", "--mlock", "--load-mode mmap+mlock")
    assert_refused(
        tuner.run("check", "llama-server -m x", "--device-memory", "CUDA0=9"), "no llama-server on the PATH"
    )


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("9999", ("build 9999", "known are 9095, 9246, 10001, 10435, 11434")),
        ("/nowhere/llama-server", ("/nowhere/llama-server", "no such file")),
    ],
)
def test_build_that_cannot_be_known_is_refused(
    tuner: TunerCommand, given: str, parts: tuple[str, ...]
) -> None:
    ended = tuner.run("check", "llama-server -m x", "--server", str(tuner.fake.path), "--from", given)
    assert_refused(ended, *parts)


def test_no_key_is_told(tuner: TunerCommand, model: str) -> None:
    command = f"HF_TOKEN=hunter2 llama-server -m {model} --no-mmap -np 1"
    ended = tuner.run("check", command, "--server", str(tuner.fake.path))
    assert "hunter2" not in ended.stdout
