"""The builds whose help texts come with the package."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import engine_setup
from tuner.core.options import OPTIONS
from tuner.engine.known_builds import known_build, known_builds, newest_build
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_five_builds_are_known_whole() -> None:
    assert [build.number for build in known_builds()] == [9095, 9246, 10001, 10435, 11434]
    assert newest_build().number == 11434
    for build in known_builds():
        heads = [line for line in build.help.text.splitlines() if line.startswith("-----")]
        assert heads == [
            f"----- {name} params -----" for name in ("common", "sampling", "speculative", "example-specific")
        ]
        assert build.help.text.rstrip().endswith("enable default speculative decoding config")
        assert sum(build.help.spelling(name) is not None for name in OPTIONS) > 40


def test_build_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match="build 9999: its help text is not known; known are 9095, 9246"):
        known_build(9999)


@pytest.mark.server
@pytest.mark.parametrize("build", engine_setup.BUILDS)
def test_help_text_of_a_build_is_what_that_build_prints(
    build: int, server_path: Callable[[int], Path]
) -> None:
    printed = subprocess.run(
        [server_path(build), "--help"], env={}, capture_output=True, text=True, timeout=60, check=True
    )
    assert printed.stdout == known_build(build).help.text
