"""What became of flags and variables that llama-server no longer has."""

from __future__ import annotations

import pytest

from tests.support.fake_llama.builds import BUILDS
from tuner.core.flag_history import (
    FLAG_CHANGES,
    VALUE_NAMES,
    VARIABLE_CHANGES,
    flag_change,
    load_mode,
    older_flags,
    variable_change,
)
from tuner.engine.help_text import HelpText

NEW, OLD = (HelpText(BUILDS[build].help_text()) for build in ("11434", "9246"))


def test_nothing_that_is_gone_is_in_the_newest_help() -> None:
    spellings = [spelling for change in FLAG_CHANGES for spelling in change.old]
    assert [spelling for spelling in spellings if NEW.entry(spelling) is not None] == []
    variables = [change.old for change in VARIABLE_CHANGES if f"(env: {change.old})" in NEW.text]
    assert variables == ["LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_DRAFT_MIN"]  # listed as removed


def test_everything_that_is_written_instead_is_in_the_newest_help() -> None:
    new = {flag for change in FLAG_CHANGES for flag in (change.new, *change.by_spec_type.values()) if flag}
    assert {flag for flag in new if NEW.entry(flag) is None} == set()
    variables = {change.new for change in VARIABLE_CHANGES if change.new is not None}
    assert {name for name in variables if f"(env: {name})" not in NEW.text} == set()
    modes = {change.value for change in FLAG_CHANGES if change.new == "--load-mode" and change.value}
    assert all(NEW.allows("load-mode", mode) for mode in modes)


def test_values_that_people_write_lead_to_values_of_the_newest_help() -> None:
    for option, names in VALUE_NAMES.items():
        for wrong, meant in names.items():
            assert NEW.allows(option, meant)
            assert not NEW.allows(option, wrong)


def test_no_spelling_is_listed_twice() -> None:
    spellings = [spelling for change in FLAG_CHANGES for spelling in change.old]
    assert len(spellings) == len(set(spellings))


def test_a_flag_that_an_old_build_still_has_takes_a_value_there_as_here() -> None:
    for change in FLAG_CHANGES:
        for entry in filter(None, map(OLD.entry, change.old)):
            assert entry.takes_value == change.takes_value, change.old


@pytest.mark.parametrize(
    ("spelling", "value", "spec_types", "words"),
    [
        ("--no-mmap", None, (), ("--load-mode", "none")),
        ("--draft", "16", (), ("--spec-draft-n-max", "16")),
        ("--draft_max", "16", ("ngram-mod",), ("--spec-ngram-mod-n-max", "16")),
        ("--draft-n", None, (), ("--spec-draft-n-max",)),
        ("--draft-min", "2", ("draft-mtp",), ("--spec-draft-n-min", "2")),
        ("--spec-ngram-size-n", "12", (), ("--spec-ngram-mod-n-match", "12")),
        ("--spec-ngram-size-n", "12", ("ngram-map-k",), ("--spec-ngram-map-k-size-n", "12")),
        ("--spec-ngram-size-m", "48", ("ngram-map-k4v",), ("--spec-ngram-map-k4v-size-m", "48")),
        ("--spec-ngram-min-hits", "1", (), ("--spec-ngram-simple-min-hits", "1")),
        ("--ctx-size-draft", "4096", (), ()),
        ("-cpent", "8192", (), ("--checkpoint-min-step", "8192")),
        ("-ndio", None, (), ()),
    ],
)
def test_old_flag_is_written_anew(
    spelling: str, value: str | None, spec_types: tuple[str, ...], words: tuple[str, ...]
) -> None:
    change = flag_change(spelling)
    assert change is not None
    assert change.written(value, spec_types) == words


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
        ([], None),
        (["--draft"], None),
    ],
)
def test_old_switches_of_loading_come_to_one_mode(spellings: list[str], mode: str | None) -> None:
    assert load_mode(spellings) == mode


def test_older_flags_are_found_by_the_new_one() -> None:
    assert [change.old[0] for change in older_flags("--checkpoint-min-step")] == [
        "--checkpoint-every-n-tokens"
    ]
    assert older_flags("--ctx-size") == ()


def test_a_flag_or_variable_that_is_not_gone_has_no_change() -> None:
    assert flag_change("--ctx-size") is None
    assert variable_change("LLAMA_ARG_CTX_SIZE") is None
    stopping = variable_change("LLAMA_ARG_DRAFT_MAX")
    assert stopping is not None
    assert stopping.stops_start
