"""What holds for every command that a known build allows, put into the words of every other one."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.commands import candidate_options, commands, environments
from tuner.core.options import OPTIONS
from tuner.engine.checked_command import flags_of
from tuner.engine.command_line import can_write, option_flags
from tuner.engine.findings.words import takes
from tuner.engine.flag_history import VARIABLE_CHANGES
from tuner.engine.known_builds import known_builds
from tuner.engine.translation import translate, translate_options
from tuner.engine.user_command import option_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.options import Value
    from tuner.engine.known_builds import KnownBuild
    from tuner.engine.translation import Translation

BUILDS = known_builds()
PAIRS = [pair for pair in product(BUILDS, BUILDS) if pair[0] is not pair[1]]
MANY = settings(max_examples=25, deadline=None)


def named(pair: tuple[KnownBuild, KnownBuild]) -> str:
    return f"{pair[0].number} to {pair[1].number}"


def joined(flags: Sequence[tuple[str, ...]]) -> list[str]:
    return [word for flag in flags for word in flag]


def refused(translation: Translation, build: KnownBuild) -> list[str]:
    """The words and variables that a build's help does not list."""
    found = []
    for flag in flags_of(translation.words, build.help):
        entry = build.help.entry(flag.tokens[0])
        is_listed = entry is not None and len(flag.tokens) == 1 + entry.n_values
        if (
            entry is None
            or not is_listed
            or not (flag.value is None or takes(entry, str(flag.name), flag.value))
        ):
            found.append(" ".join(flag.tokens))
    ours = (name for name in translation.environment if name.startswith("LLAMA"))
    return found + [name for name in ours if name.replace("_ARG_NO_", "_ARG_") not in build.help.variables]


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_all_of_a_translated_command_is_listed_by_the_help_of_its_build(
    pair: tuple[KnownBuild, KnownBuild],
) -> None:
    old, new = pair

    @MANY
    @given(commands(old.help), environments(old.help))
    def holds(flags: tuple[tuple[str, ...], ...], environment: dict[str, str]) -> None:
        assert refused(translate(joined(flags), old.help, new.help, environment), new) == []

    holds()


gone_variables = st.dictionaries(
    st.sampled_from([change.old for change in VARIABLE_CHANGES]).flatmap(
        lambda name: st.sampled_from([name, name.replace("_ARG_", "_ARG_NO_")])
    ),
    st.sampled_from(["1", "0", "on", "maybe", ""]),
    max_size=3,
)


@MANY
@given(st.sampled_from(BUILDS), st.sampled_from(BUILDS), gone_variables)
def test_variables_of_any_age_are_those_of_the_build_or_gone(
    old: KnownBuild, new: KnownBuild, environment: dict[str, str]
) -> None:
    translation = translate((), old.help, new.help, environment)
    assert refused(translation, new) == []
    before = " ".join(change.before for change in translation.changes)
    for name, value in environment.items():
        assert translation.environment.get(name) == value or name in before


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: str(build.number))
def test_translated_for_the_same_build_nothing_changes(build: KnownBuild) -> None:
    @MANY
    @given(commands(build.help), environments(build.help))
    def holds(flags: tuple[tuple[str, ...], ...], environment: dict[str, str]) -> None:
        same = translate(joined(flags), build.help, build.help, environment)
        assert (list(same.words), same.environment, same.changes) == (joined(flags), environment, ())

    holds()


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_translated_command_is_of_its_build_and_needs_no_more(pair: tuple[KnownBuild, KnownBuild]) -> None:
    old, new = pair

    @MANY
    @given(commands(old.help))
    def holds(flags: tuple[tuple[str, ...], ...]) -> None:
        once = translate(joined(flags), old.help, new.help)
        again = translate(once.words, new.help, new.help)
        assert (again.words, again.changes) == (once.words, ())

    holds()


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_no_word_goes_or_comes_without_being_told(pair: tuple[KnownBuild, KnownBuild]) -> None:
    old, new = pair

    @MANY
    @given(commands(old.help), environments(old.help))
    def holds(flags: tuple[tuple[str, ...], ...], environment: dict[str, str]) -> None:
        translation = translate(joined(flags), old.help, new.help, environment)
        before = " ".join(change.before for change in translation.changes)
        after = " ".join(change.after for change in translation.changes)
        stayed = {flag.tokens for flag in flags_of(translation.words, new.help)}
        for flag in flags:
            assert flag in stayed or flag[0] in before, flag
        for tokens in stayed - set(flags):
            assert tokens[0] in after, tokens
        for name, value in environment.items():
            assert translation.environment.get(name) == value or name in before, name
        for name in translation.environment.keys() - environment.keys():
            assert name in after, name

    holds()


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_options_of_a_candidate_are_translated_as_their_words_are(
    pair: tuple[KnownBuild, KnownBuild],
) -> None:
    old, new = pair

    @MANY
    @given(candidate_options(old.help))
    def holds(options: dict[str, Value]) -> None:
        translated = translate_options(options, old.help, new.help)
        written = [
            word for name, value in translated.options.items() for word in option_flags(new.help, name, value)
        ]
        words = [
            word
            for name in OPTIONS
            if name in options
            for word in option_flags(old.help, name, options[name])
        ]
        expected = translate(words, old.help, new.help)
        assert meant([*written, *translated.flags], new) == meant(expected.words, new)
        assert translated.changes == expected.changes
        own = {name: value for name, value in options.items() if name not in OPTIONS}
        assert own.items() <= translated.options.items()

    holds()


def meant(words: Sequence[str], build: KnownBuild) -> dict[str | None, object]:
    """What words set each option to, whatever its spelling."""
    found: dict[str | None, object] = {}
    for flag in flags_of(words, build.help):
        found[flag.name] = option_value(flag) if flag.name in OPTIONS else flag.tokens
    return found


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: str(build.number))
def test_options_of_a_candidate_stay_as_they_are_for_the_same_build(build: KnownBuild) -> None:
    @MANY
    @given(candidate_options(build.help))
    def holds(options: dict[str, Value]) -> None:
        same = translate_options(options, build.help, build.help)
        written = {
            name: value
            for name, value in options.items()
            if name not in OPTIONS or can_write(build.help, name)
        }
        assert (same.options, same.flags, same.changes) == (written, (), ())

    holds()


@MANY
@given(
    st.sampled_from(BUILDS), st.sampled_from(BUILDS), st.lists(st.text(min_size=1, max_size=8), max_size=6)
)
def test_any_words_are_translated_into_words_that_the_build_lists(
    old: KnownBuild, new: KnownBuild, words: list[str]
) -> None:
    translation = translate(words, old.help, new.help)
    assert [flag.tokens for flag in flags_of(translation.words, new.help) if flag.name is None] == []
