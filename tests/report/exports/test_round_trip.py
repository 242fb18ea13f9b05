"""What is exported and read again is the same configuration, whatever it is."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, candidates
from tests.support.winners import a_winner, help_of
from tests.support.winners import settings as settings_of
from tuner.core.candidate import Candidate
from tuner.core.options import BASE_OPTIONS
from tuner.engine.command_line import options_to_flags
from tuner.errors import ExportError
from tuner.report.exports.env_file import EnvFile
from tuner.report.exports.posix_shell import PosixShell
from tuner.report.exports.preset_ini import PresetIni

#: Anything that a word of a command can hold: no NUL, nothing that UTF-8 has no bytes for.
words = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=30)
paths = words.map(lambda text: f"/{text}.gguf")
builds = st.sampled_from(["11434", "9246"])


def flags(candidate: Candidate, build: str) -> list[str]:
    """A candidate's flags, those with values that could be another flag left out."""
    full = Candidate.of({**BASE_OPTIONS, **candidate.options})
    written = options_to_flags(help_of(build), full)
    assume(not any("\0" in word for word in written))
    return written


def variables(candidate: Candidate) -> dict[str, str]:
    assume(not any("\0" in value for value in candidate.environment.values()))
    return candidate.environment


#: Stands in the server's place: says its words and its environment.
_ECHO = "printf '%s\\0' \"$@\" ENVIRONMENT; env -0"


@PROPERTY
@given(candidates, st.lists(words, max_size=3), paths, builds)
def test_shell(candidate: Candidate, tags: list[str], path: str, build: str) -> None:
    """Read by /bin/sh itself."""
    command, environment = [*flags(candidate, build), "--tags", *tags], variables(candidate)
    winner = a_winner(command, model=path, environment=environment, devices=(("RPC0", "h:1", None),))
    text = PosixShell().write(winner).replace(f"server={winner.program}", "server=/bin/sh")
    text = text.replace('exec "$server"', f'exec "$server" -c {shlex.quote(_ECHO)} sh')
    said = [*by_shell(text).split("\0")[:-1]]
    at = len(command) + 2
    assert said[: at + 1] == ["-m", path, *command, "ENVIRONMENT"]
    got = own(said[at + 1 :])
    assert got == {"XDG_CONFIG_HOME": "/dev/null", **environment}


def by_shell(*words: str) -> str:
    """What a shell says that runs a text."""
    bare = {"PATH": os.defpath}
    return subprocess.run(
        ["/bin/sh", "-c", *words], env=bare, capture_output=True, check=True
    ).stdout.decode()


def own(variables: list[str]) -> dict[str, str]:
    """Variables, but those that a shell sets."""
    found = dict(one.split("=", 1) for one in variables)
    return {name: found[name] for name in found if name not in {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}}


@PROPERTY
@given(candidates, paths, builds)
def test_env(candidate: Candidate, path: str, build: str) -> None:
    """Read by a shell, and by the names that the engine's help has for its flags."""
    with_variable = {name: value for name, value in candidate.items if not has_no_variable(name, build)}
    command, environment = flags(Candidate.of(with_variable), build), variables(candidate)
    winner = a_winner(
        command, model=path, environment=environment, build=build, devices=(("ROCm0", "W", None),)
    )
    got = own(by_shell('set -a; eval "$0"; exec env -0', EnvFile().write(winner)).split("\0")[:-1])
    by_variable = {
        entry.variable: help_of(build).canonical(entry.spellings[-1])
        for entry in help_of(build).entries
        if entry.variable is not None
    }
    assert {name: value for name, value in got.items() if name not in by_variable} == {
        "XDG_CONFIG_HOME": "/dev/null",
        **environment,
    }
    read = {str(by_variable[name]): value for name, value in got.items() if name in by_variable}
    assert read == as_text(settings_of(["-m", path, *command], build))


def has_no_variable(name: str, build: str) -> bool:
    entry = help_of(build).option(name)
    return entry is not None and entry.variable is None


@pytest.mark.parametrize("build", ["11434", "9246"])
def test_what_has_no_variable_is_refused_by_name(build: str) -> None:
    """A file without it would be another configuration."""
    winner = a_winner(["--poll", "0", "-ts", "2,3", "--prio", "2"], build=build)
    with pytest.raises(ExportError, match=r"no environment variable for --poll, --prio; take --format shell"):
        EnvFile().write(winner)


@PROPERTY
@given(candidates, paths)
def test_preset(candidate: Candidate, path: str) -> None:
    """Read by the rules of the engine's parser."""
    command = flags(candidate, "11434")
    wanted = as_text(settings_of(["-m", path, *command]))
    try:
        text = PresetIni().write(a_winner(command, model=path))
    except ExportError:
        # refused only for what that parser would cut off
        assert any(set(value) & set(";#\r\n") or value != value.strip() for value in wanted.values())
        return
    lines = text.split("\n")
    at = next(index for index, line in enumerate(lines) if line.startswith("["))
    assert all(line.startswith((";", "version = 1")) or not line for line in lines[:at])
    pairs = [line.split(" = ", 1) for line in lines[at + 1 :] if line]
    assert {str(help_of("11434").canonical(f"--{key}")): value for key, value in pairs} == wanted


def as_text(values: dict[str, str | bool]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
