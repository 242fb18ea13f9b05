"""The best of a study in all forms, and what is refused before anything is written."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import model_metadata, write_gguf
from tests.support.tuner_command import Made, TunerCommand, assert_refused, read
from tuner.report.best import check_best
from tuner.report.exports.registry import Format

if TYPE_CHECKING:
    from pathlib import Path


def test_json_is_best_json(made: Made, tmp_path: Path) -> None:
    document = json.loads(read(made.command, "export", "mine", "--format", "json"))
    check_best(document)
    assert document | {"date": ""} == made.command.best() | {"date": ""}
    path = tmp_path / "exported.json"
    assert read(made.command, "export", "mine", "-o", str(path)) == ""
    assert json.loads(path.read_text(encoding="utf-8")) | {"date": ""} == document | {"date": ""}


@pytest.mark.parametrize("form", Format)
def test_a_study_its_folder_and_its_best_json_give_the_same(made: Made, form: Format) -> None:
    best = made.command.study / "best.json"
    texts = {
        undated(read(made.command, "export", named, "--format", form), made)
        for named in ("mine", str(made.command.study), str(best))
    }
    assert len(texts) == 1
    (text,) = texts
    assert "small" in text


def undated(text: str, made: Made) -> str:
    """Without the second in which it was written."""
    date = made.command.best()["date"]
    return "\n".join(line for line in text.splitlines() if date[:13] not in line)


def test_the_measured_command_starts_a_server(made: Made, tmp_path: Path) -> None:
    winner = made.command.best()["winner"]
    assert shlex.split(winner["command"])[-len(winner["argv"]) :] == winner["argv"]
    with FakeEngine(tmp_path).serving(*winner["argv"][3:]) as server:
        assert server.get("/health").status_code == 200


def test_the_script_is_executable_and_checks_the_engines_own_names(made: Made, tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    read(made.command, "export", "mine", "--format", "shell", "-o", str(script))
    assert os.access(script, os.X_OK)
    other = FakeEngine(tmp_path, devices=[("CUDA0", "NVIDIA GeForce RTX 4090", 24576, 24100)])
    ended = subprocess.run(
        [script], env=other.environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert "CUDA0 is not 'NVIDIA GeForce RTX 5080'" in ended.stderr
    assert not [event for event in other.events("start") if "-m" in event["argv"]]


def test_an_open_host_without_a_key_is_warned_of(made: Made) -> None:
    ended = made.command.run("export", str(made.command.study), "--host", "0.0.0.0", "--format", "shell")  # noqa: S104
    assert ended.code == 0
    assert "--host 0.0.0.0 lets other machines in" in ended.stderr
    assert "--host 0.0.0.0" in ended.stdout
    words = ["--host", "0.0.0.0", "--api-key-file", "/k"]  # noqa: S104
    assert made.command.run("export", str(made.command.study), *words).stderr == ""


def test_relative_paths_are_made_whole(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(made.command.model, tmp_path / "copy.gguf")
    text = read(
        made.command,
        "export",
        "mine",
        "--format",
        "shell",
        "--model-path",
        "copy.gguf",
        "--api-key-file",
        "k",
    )
    assert f"-m {tmp_path}/copy.gguf" in text
    assert f"--api-key-file {tmp_path}/k" in text


def test_a_model_that_is_not_here_is_noted(made: Made) -> None:
    ended = made.command.run("export", str(made.command.study), "--model-path", "/elsewhere/m.gguf")
    assert ended.code == 0
    assert "no such file here, so nothing says that it is the model that was measured" in ended.stderr


def test_an_engine_that_was_replaced_is_noted_where_it_is_asked(made: Made, tmp_path: Path) -> None:
    best = made.command.best()
    best["engine"]["digest"] = "0" * 64
    path = tmp_path / "best.json"
    path.write_text(json.dumps(best), encoding="utf-8")
    ended = made.command.run("export", str(path), "--format", "env")
    assert ended.code == 0
    assert "is not the llama-server that was measured any more" in ended.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--port", "0"], ["--port: must be from 1 to 65535"]),
        (["--port", "70000"], ["--port: must be from 1 to 65535"]),
        (["--host", ""], ["--host: must be a name"]),
        (["--host", "--api-key"], ["--host: must be a name"]),
        (["--alias", "a\nb"], ["--alias: must be a name"]),
    ],
)
def test_what_cannot_be_is_refused(made: Made, tmp_path: Path, words: list[str], parts: list[str]) -> None:
    output = tmp_path / "out"
    ended = made.command.run("export", str(made.command.study), "-o", str(output), *words)
    assert_refused(ended, *parts)
    assert not output.exists()


def test_another_model_is_refused(made: Made, tmp_path: Path) -> None:
    other = write_gguf(tmp_path / "other.gguf", model_metadata("llama") | {"general.name": "Other"})
    ended = made.command.run("export", str(made.command.study), "--model-path", str(other))
    assert_refused(ended, "other.gguf: this is", "another file than was measured")


@pytest.mark.parametrize("text", ["no JSON", "{}", "[]", '{"schema_version": 1}'])
def test_a_file_that_is_no_best_json_is_refused(command: TunerCommand, text: str) -> None:
    path = command.folder / "x.json"
    path.write_text(text, encoding="utf-8")
    assert_refused(command.run("export", str(path)), "x.json is no best.json")


def test_a_form_that_needs_the_engine_says_so_where_it_is_gone(made: Made, tmp_path: Path) -> None:
    best = made.command.best()
    best["winner"]["argv"][0] = "/gone/llama-server"
    path = tmp_path / "best.json"
    path.write_text(json.dumps(best), encoding="utf-8")
    for form in ("env", "preset-ini"):
        assert_refused(
            made.command.run("export", str(path), "--format", form), "/gone/llama-server", "--format shell"
        )
    assert made.command.run("export", str(path), "--format", "systemd").code == 0


def test_a_study_without_a_measurement_has_nothing_to_export(command: TunerCommand) -> None:
    command.fake.always(oom={"stage": "weights", "device": 0})
    command.run(*command.words("--launches", "1"))
    assert_refused(command.run("export", str(command.study)), "nothing was measured yet")
