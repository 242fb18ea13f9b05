"""What README.md says of the command line is what the command line says."""

import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.support.readme_help import README, blocks, commands, help_text
from tuner.cli.space_files import shipped_spaces
from tuner.core.outcome import Kind
from tuner.core.space_document import parse_space

TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", commands())
def test_each_help_text_stands_in_the_readme(command: str) -> None:
    assert blocks(TEXT).get(command) == help_text(command), "run: make readme"


def test_every_shipped_space_and_every_kind_of_outcome_is_explained() -> None:
    words = set(re.findall(r"`([\w-]+)`", TEXT))
    assert set(shipped_spaces()) <= words
    assert {kind.value for kind in Kind} - {"none"} <= words


def test_the_example_of_two_results_is_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    (words, shown) = re.findall(r"\$ tuner (show docs/gpu/.*?)\n(.*?)```", TEXT, re.DOTALL)[0]
    monkeypatch.chdir(README.parent)
    run = subprocess.run(
        [sys.executable, "-m", "tuner", *words.split()],
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    lines = [line.rstrip() for line in run.stdout.splitlines()]
    assert [line for line in lines if line] == shown.splitlines()


def test_the_example_of_a_search_space_is_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    space = parse_space("README", tomllib.loads(example))
    assert {parameter.name for parameter in space.parameters} >= {"split-mode", "tensor-split", "device"}
