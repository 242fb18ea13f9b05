"""The history of a rig is kept in a file, and a broken one costs nothing but itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.core.test_history import ENTRY
from tuner.errors import RigError
from tuner.rig.history import History, histories

PAIR = ("GPU-1", "GPU-2")
NAMES = ["CUDA0: RTX 5080", "CUDA1: RTX 3090"]


def test_what_is_added_is_there_for_the_next(tmp_path: Path) -> None:
    History(PAIR, tmp_path).add(ENTRY, NAMES)
    other = replace(ENTRY, study="t", date="2026-04-01T00:00:00+01:00")
    History(PAIR[::-1], tmp_path).add(other, NAMES)  # the same cards in another order
    found = History(PAIR, tmp_path).load()
    assert found.entries == (ENTRY, other)
    assert list(found.devices) == NAMES


def test_each_rig_has_its_own(tmp_path: Path) -> None:
    History(PAIR, tmp_path).add(ENTRY, NAMES)
    History(("GPU-3",), tmp_path).add(replace(ENTRY, study="t"), ["CUDA0: RTX 4090"])
    assert sorted(one.entries[0].study for one in histories(tmp_path)) == ["s", "t"]
    assert History(("GPU-9",), tmp_path).load().entries == ()


@pytest.mark.parametrize("text", ["", "{", '{"format": 99}', '{"format": 1, "devices": [], "entries": [{}]}'])
def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path: Path, text: str) -> None:
    history = History(PAIR, tmp_path)
    history.path.write_text(text, encoding="utf-8")
    assert history.load().entries == ()
    assert histories(tmp_path) == []
    history.add(ENTRY, NAMES)
    assert history.load().entries == (ENTRY,)


def test_no_folder_is_no_history(tmp_path: Path) -> None:
    assert histories(tmp_path / "missing") == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "facts").write_text("", encoding="utf-8")
    with pytest.raises(RigError, match="--facts"):
        History(PAIR, tmp_path / "facts").add(ENTRY, NAMES)
