"""What became of flags, variables and values that llama-server no longer has, held against five help texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tuner.engine.flag_history import (
    BARE_VALUES,
    FLAG_CHANGES,
    READ_WITH,
    VALUE_CHANGES,
    VALUE_NAMES,
    VARIABLE_CHANGES,
    flag_change,
    older_flags,
    variable_change,
)
from tuner.engine.known_builds import known_build, known_builds

if TYPE_CHECKING:
    from tuner.engine.known_builds import KnownBuild

NEW = known_build(11434).help
ALL = [build.help for build in known_builds()]


def test_nothing_that_is_gone_is_in_the_newest_help() -> None:
    spellings = [spelling for change in FLAG_CHANGES for spelling in change.old]
    assert [spelling for spelling in spellings if NEW.entry(spelling) is not None] == []
    assert [change.old for change in VARIABLE_CHANGES if change.old in NEW.variables] == []


def test_everything_that_is_written_instead_is_in_the_newest_help() -> None:
    new = {flag for change in FLAG_CHANGES for flag in (change.new, *change.by_spec_type.values()) if flag}
    assert {flag for flag in new if NEW.entry(flag) is None} == set()
    variables = {change.new for change in VARIABLE_CHANGES if change.new is not None}
    assert {name for name in variables if name not in NEW.variables} == set()
    modes = {change.value for change in FLAG_CHANGES if change.new == "--load-mode" and change.value}
    assert all(NEW.allows("load-mode", mode) for mode in modes)


def test_values_that_people_write_lead_to_values_of_the_newest_help() -> None:
    for option, names in VALUE_NAMES.items():
        for wrong, meant in names.items():
            assert NEW.allows(option, meant)
            assert not any(help_text.allows(option, wrong) for help_text in ALL)


def test_no_spelling_is_listed_twice() -> None:
    spellings = [spelling for change in FLAG_CHANGES for spelling in change.old]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("build", known_builds(), ids=lambda build: str(build.number))
def test_build_lists_what_was_not_gone_yet_and_nothing_that_was(build: KnownBuild) -> None:
    for change in FLAG_CHANGES:
        # what a build has that went between two of those compared is known to a build number only
        is_there = change.since is not None and build.number < change.since and change.since > 9095
        assert [build.help.entry(old) is not None for old in change.old] == [is_there] * len(change.old), (
            change
        )
        for entry in filter(None, map(build.help.entry, change.old)):
            assert entry.n_values == change.n_values
    for variable in VARIABLE_CHANGES:
        is_there = build.number < variable.since and variable.since > 9095
        assert (variable.old in build.help.variables) == is_there, variable


def test_flags_that_tell_builds_apart_are_listed_by_the_newest_and_not_by_the_oldest() -> None:
    for change in VALUE_CHANGES:
        assert [help_text.entry(change.until) is not None for help_text in (ALL[0], NEW)] == [False, True]
        entry = NEW.option(change.option)
        assert entry is not None
        assert change.old in entry.allowed or change.old == "-1"
        assert change.new is None or change.new in entry.allowed


def test_options_that_are_named_are_those_of_the_newest_help() -> None:
    names = {*BARE_VALUES, *READ_WITH, *READ_WITH.values()}
    assert {name for name in names if NEW.canonical(f"--{name}") != name} == set()
    assert all(NEW.allows(name, value) for name, value in BARE_VALUES.items())


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
