"""Which build a command was written for."""

from __future__ import annotations

import shlex

import pytest

from tuner.engine.known_builds import known_build, newest_build
from tuner.engine.written_for import written_for


@pytest.mark.parametrize(
    ("words", "build"),
    [
        ("-m x -ngl 99", None),
        ("-m x --no-mmap", 10001),
        ("-m x --mlock -cpent 4", 9246),
        ("-m x -cpent 4", 9246),
        ("-m x -cd 4", 9095),
        ("-m x --draft-max 16", 9095),
        ("-m x --draft-max 16 --no-mmap", 9095),
        ("-m x -mv y", 10001),
        ("-m x --tools apply_diff", 9246),
        ("-m x --tools get_datetime", 10435),
        ("-m x --frobnicate", None),
        ("-m x -sm rows", None),
        ("-m x --fit-print on", None),
        ("stray", None),
        ("", None),
    ],
)
def test_flags_tell_the_build_that_a_command_was_written_for(words: str, build: int | None) -> None:
    found = written_for(shlex.split(words), newest_build().help)
    assert (None if found is None else found.number) == build


@pytest.mark.parametrize(
    ("words", "build"), [("-lm none", 11434), ("-cms 4", 11434), ("-ncffn 3", 11434), ("-c 1", None)]
)
def test_command_for_a_newer_build_is_of_the_newest(words: str, build: int | None) -> None:
    found = written_for(shlex.split(words), known_build(9246).help)
    assert (None if found is None else found.number) == build
