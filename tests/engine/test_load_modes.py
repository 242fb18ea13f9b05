"""How switches of older builds and `--load-mode` stand for each other."""

from __future__ import annotations

import pytest

from tuner.engine.load_modes import SWITCHES, last_mode, load_mode


@pytest.mark.parametrize(
    ("spellings", "mode"),
    [
        (["--no-mmap"], "none"),
        (["--mmap"], "mmap"),
        (["--mlock"], "mmap+mlock"),
        (["--mlock", "--no-mmap"], "mlock"),
        (["--no_mmap", "--mlock"], "mlock"),
        (["-dio", "--no-mmap"], "dio"),
        (["--no-direct-io"], None),
        (["--no-mmap", "--mmap"], "mmap"),
        (["--mmap", "--no-mmap"], "none"),
        (["-dio", "-ndio", "--mlock"], "mmap+mlock"),
        ([], None),
        (["--draft"], None),
    ],
)
def test_old_switches_of_loading_come_to_one_mode(spellings: list[str], mode: str | None) -> None:
    assert load_mode(spellings) == mode


@pytest.mark.parametrize(
    ("spelling", "mode"),
    [
        ("--no-mmap", "none"),
        ("--no_mmap", "none"),
        ("--mmap", "mmap"),
        ("--mlock", "mlock"),
        ("-dio", "dio"),
        ("-ndio", "none"),
        ("--draft", None),
        ("-c", None),
    ],
)
def test_switch_sets_all_of_it_where_a_build_has_both(spelling: str, mode: str | None) -> None:
    assert last_mode(spelling) == mode


def test_switches_of_a_mode_come_to_that_mode() -> None:
    assert {mode: load_mode(switches) for mode, switches in SWITCHES.items() if switches} == {
        mode: mode for mode, switches in SWITCHES.items() if switches
    }
