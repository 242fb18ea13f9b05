"""Room on the disk for another trial."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tuner.errors import ResultsError
from tuner.runs.room import NEEDED_MIB, check_room

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What is free on the disk, which the test may change."""
    disk = {"free": 0}
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(**disk))
    return disk


def test_a_disk_with_room_is_well(tmp_path: Path, asked: dict[str, int]) -> None:
    asked["free"] = NEEDED_MIB * MIB
    check_room(tmp_path)


def test_a_disk_that_is_nearly_full_is_named_with_what_is_needed(
    tmp_path: Path, asked: dict[str, int]
) -> None:
    asked["free"] = 7 * MIB
    with pytest.raises(ResultsError) as caught:
        check_room(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: 7 MiB are free on its disk, {NEEDED_MIB} are needed for a trial. "
        "Free some and run the same command again: nothing is lost"
    )


def test_the_disk_of_the_folder_is_asked(tmp_path: Path) -> None:
    check_room(tmp_path)
