"""Every flag and value of five builds, in the words of the two engines that are built here, is taken by them."""

from __future__ import annotations

import subprocess
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.support import engine_setup
from tests.support.commands import offered
from tuner.engine.findings.words import COMMA_LISTS
from tuner.engine.flag_history import FLAG_CHANGES, VARIABLE_CHANGES
from tuner.engine.known_builds import known_builds
from tuner.engine.probe import read_help
from tuner.engine.translation import ChangeKind, translate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.engine.help_text import HelpEntry
    from tuner.engine.known_builds import KnownBuild

pytestmark = pytest.mark.server

#: Values of options whose help does not list them, where a number or a path will not do.
VALUES = {
    "device": "none",
    "spec-draft-device": "none",
    "mmproj-device": "none",
    "override-tensor": "a=CPU",
    "spec-draft-override-tensor": "a=CPU",
    "override-kv": "a=int:1",
    "lora-scaled": "a:1",
    "control-vector-scaled": "a:1",
    "tensor-split": "3,2",
    "fit-target": "1024",
    "cpu-range": "0-0",
    "cpu-range-batch": "0-0",
    "spec-draft-cpu-range": "0-0",
    "prio": "1",
    "prio-batch": "1",
    "spec-draft-prio": "1",
    "spec-draft-prio-batch": "1",
    "logit-bias": "1+1",
    "samplers": "top_k;temperature",
    "sampling-seq": "kt",
    "sampler-seq": "kt",
    "json-schema": "{}",
    "chat-template-kwargs": "{}",
    "mcp-servers-json": "{}",
    "ui-config": "{}",
    "webui-config": "{}",
    "chat-template": "chatml",
    "tools-runtime": "none",
    "reasoning-effort": "low",
    "spec-synth-len": "2",
    "spec-synth-rates": "0.5",
}
NUMBERS = frozenset({"N", "P", "M", "SEED", "PORT", "INDEX", "SECONDS", "SIMILARITY", "<0...100>"})
#: Options whose value is a folder, or a file that is written.
FOLDERS, WRITTEN = frozenset({"slot-save-path", "media-path"}), frozenset({"log-file"})
#: It connects at once.
CONNECTS = frozenset({"rpc"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "any.json").write_text("{}", encoding="utf-8")
    return tmp_path


def spoken(build: KnownBuild, entry: HelpEntry, folder: Path) -> list[tuple[str, ...]]:
    """A flag in all its spellings, and with all its values in one."""
    name = str(build.help.canonical(entry.spellings[-1]))
    if not entry.takes_value:
        return [(spelling,) for spelling in entry.spellings]
    if entry.n_values > 1:
        return [(spelling, *["1"] * entry.n_values) for spelling in entry.spellings]
    values = sorted(entry.allowed) or [a_value(name, entry, folder)]
    if name in COMMA_LISTS and not entry.hint.startswith("["):
        values.append(",".join(values))
    return [
        *((spelling, values[0]) for spelling in entry.spellings),
        *((entry.spellings[-1], one) for one in values),
    ]


def a_value(name: str, entry: HelpEntry, folder: Path) -> str:
    """A value that an engine takes for an option whose help lists none."""
    if name in VALUES:
        return VALUES[name]
    if entry.hint in NUMBERS:
        return "7"
    if name in FOLDERS:
        return str(folder)
    return str(folder / ("server.log" if name in WRITTEN else "any.json"))


def run(
    program: Path, words: tuple[str, ...], folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    # what is written comes first: the engine reads it all before it tells its version and ends
    return subprocess.run(
        [program, *words, "--version"],
        env={"XDG_CONFIG_HOME": str(folder), **environment},
        cwd=folder,  # some of them write a log
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """What an engine has against its words; nothing where it takes them all."""
    if ended.returncode == 0:
        return ""
    said = [line for line in ended.stderr.splitlines() if line and "DEPRECATED" not in line]
    return f"{ended.returncode}: {said[:6]}"


@pytest.mark.parametrize("target", engine_setup.BUILDS)
@pytest.mark.parametrize("build", known_builds(), ids=lambda build: str(build.number))
def test_every_flag_and_value_of_a_build_is_taken_once_translated(
    build: KnownBuild, target: int, server_path: Callable[[int], Path], folder: Path
) -> None:
    program = server_path(target)
    new = read_help(program, {})
    flags = [
        flag
        for entry in offered(build.help)
        if build.help.canonical(entry.spellings[-1]) not in CONNECTS
        for flag in spoken(build, entry, folder)
    ]
    # one at a time first: what stands alone is not helped by what stands beside it
    alone = [translate(flag, build.help, new) for flag in flags]
    words = tuple(chain.from_iterable(translation.words for translation in alone))
    assert complaint(run(program, words, folder)) == ""
    together = translate([word for flag in flags for word in flag], build.help, new)
    assert complaint(run(program, together.words, folder)) == ""
    assert len(flags) > 300


@pytest.mark.parametrize("target", engine_setup.BUILDS)
def test_every_known_rename_is_taken_once_translated(
    target: int, server_path: Callable[[int], Path], folder: Path
) -> None:
    program = server_path(target)
    new = read_help(program, {})
    oldest = known_builds()[0].help
    for change in FLAG_CHANGES:
        for spelling in change.old:
            words = (spelling, *["7"] * change.n_values)
            translation = translate(words, oldest, new)
            assert complaint(run(program, translation.words, folder)) == "", words
    for variable in VARIABLE_CHANGES:
        translation = translate((), oldest, new, {variable.old: "1"})
        assert complaint(run(program, translation.words, folder, **translation.environment)) == "", variable
        assert {change.kind for change in translation.changes} - {ChangeKind.PINNED, ChangeKind.DIFFERS}
