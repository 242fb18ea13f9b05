"""Short names for files that have long paths."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.labels import short_names

parts = st.text("ab/ .-", min_size=1, max_size=4).filter(lambda part: part.strip("/"))


def names(*paths: str) -> list[str]:
    return short_names([PurePosixPath(path).parts for path in paths])


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("/opt/b1/bin/llama-server", "/opt/b2/bin/llama-server"), ["b1", "b2"]),
        (("/a/llama.cpp/build/bin/s", "/a/ik_llama.cpp/build/bin/s"), ["llama.cpp", "ik_llama.cpp"]),
        (("/m/Q8/model", "/m/Q4/model"), ["Q8", "Q4"]),
        (("/m/M-Q8_0", "/n/M-Q4_0"), ["M-Q8_0", "M-Q4_0"]),
        (("/a/x/m", "/b/x/m", "/b/y/m"), ["a-x", "b-x", "b-y"]),
        (("/opt/llama.cpp/bin/llama-server",), ["llama-server"]),
        (("/one/my build (old)/s", "/one/new/s"), ["my-build-old", "new"]),
    ],
)  # fmt: skip
def test_names_are_the_last_parts_that_differ(paths: tuple[str, ...], expected: list[str]) -> None:
    assert names(*paths) == expected


@PROPERTY
@given(st.lists(st.lists(parts, min_size=1, max_size=4), min_size=1, max_size=5))
def test_every_name_may_be_a_folders(paths: list[list[str]]) -> None:
    found = short_names(paths)
    assert len(found) == len(paths)
    assert all(re.fullmatch(r"[\w+][\w.+-]*", name) for name in found)


@PROPERTY
@given(st.lists(st.lists(st.sampled_from(["a", "b", "build", "bin"]), min_size=1, max_size=4), max_size=5))
def test_different_paths_have_different_names_and_equal_ones_equal_names(paths: list[list[str]]) -> None:
    found = short_names(paths)
    for path, name in zip(paths, found, strict=True):
        for other, their in zip(paths, found, strict=True):
            assert (path == other) == (name == their) or "-".join(path) == "-".join(other)
