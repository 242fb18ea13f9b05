"""Several engines and several files: each engine with each file is one study, and a cell of one table."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.labels import short_names
from tuner.engine.gguf import read_model
from tuner.engine.user_command import shell_command
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tuner.cli.build.options import TuneOptions
    from tuner.core.model import ModelFile

_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


@dataclass(frozen=True, slots=True)
class Server:
    """An engine as given: its path, and flags that it alone gets."""

    path: Path
    flags: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Server:
        """What `--server` says: a path, or in quotes a path with flags behind it.

        Raises:
            UsageError: It is empty, or cannot be split into words.
        """
        if Path(text).exists():
            return cls(Path(text))
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"--server: {error} in: {text}") from error
        if not words:
            raise UsageError("--server: is empty; give the path of a llama-server")
        return cls(Path(words[0]), tuple(words[1:]))


@dataclass(frozen=True, slots=True)
class Cell:
    """One engine with one file."""

    engine: str
    """What people call the engine in this study."""
    file: str
    model: ModelFile
    options: TuneOptions
    """Those of its study."""

    @property
    def name(self) -> str:
        """Of its study, and of the folder of that."""
        return f"{self.engine}-{self.file}"


def study_of_several(options: TuneOptions, models: Sequence[Path]) -> str:
    """What a study of several is called where nothing is said: by what the names of its files begin with."""
    stems = [_SHARD.sub("", path.stem) for path in models]
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*stems, strict=False))
    common = "".join(letters[0] for letters in alike).strip("-._") or stems[0]
    return short_names([(f"{common}-{Path(options.space).stem}-several",)])[0]


def split_words(words: Sequence[str]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Further models, and flags of llama-server: the flags begin with the first word that is one."""
    first = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    return tuple(Path(word) for word in words[:first]), tuple(words[first:])


def for_one(options: TuneOptions, servers: Sequence[Server]) -> TuneOptions:
    """Options of a study of one engine and one file."""
    if not servers:
        return options
    (server,) = servers
    return replace(options, server=server.path, flags=(*server.flags, *options.flags))


def cells_of(options: TuneOptions, models: Sequence[Path], servers: Sequence[Server]) -> tuple[Cell, ...]:
    """The cells: the largest file first, each with the engines as they were given.

    The user's own command is measured once: with the engine and the file that it names, or else the first ones.

    Args:
        options: As typed; `study` names the folder of all of them.
        models: As typed.
        servers: As typed.

    Raises:
        ModelError: A file cannot be read.
        UsageError: One is there twice, or the user's command cannot be split into words.
    """
    files = [read_model(path) for path in models]
    for place, file in enumerate(files):
        twin = next((other for other in files[:place] if other.fingerprint == file.fingerprint), None)
        if twin is not None:
            raise UsageError(f"{file.path} and {twin.path} are the same model; give each once")
    given: Sequence[Server | None] = servers or [None]
    engine_names = short_names([_absolute(one.path).parts if one else ("llama-server",) for one in given])
    if len({one and _absolute(one.path).resolve() for one in given}) < len(given):
        raise UsageError("--server: the same llama-server is there twice; give each once")
    file_names = short_names([_named(file) for file in files])
    yours = _owner(options, files, given)
    ranked = sorted(zip(files, file_names, strict=True), key=lambda row: -row[0].size_bytes)
    return tuple(
        Cell(
            engine,
            file_name,
            file,
            replace(
                options if server is None else for_one(options, [server]),
                model=Path(file.path),
                study=f"{engine}-{file_name}",
                results=options.study_folder,
                current=options.current if (server, file) == yours else None,
            ),
        )
        for file, file_name in ranked
        for server, engine in zip(given, engine_names, strict=True)
    )


def _owner(
    options: TuneOptions, files: Sequence[ModelFile], servers: Sequence[Server | None]
) -> tuple[Server | None, ModelFile] | None:
    """The engine and the file that the user's own command is of; None where there is no such command."""
    if options.current is None:
        return None
    said = shell_command(options.current, "--current")
    words = {
        str(_absolute(Path(word)).resolve())
        for word in (said.program, *said.words)
        if os.sep in word or "." in word
    }
    server = next((one for one in servers if one and _is_in(words, one.path)), servers[0])
    file = next((one for one in files if _is_in(words, Path(one.path))), files[0])
    return server, file


def _named(file: ModelFile) -> tuple[str, ...]:
    """A model's path with its stem in the place of its name; of several shards without their number."""
    path = _absolute(Path(file.path))
    return (*path.parts[:-1], _SHARD.sub("", path.stem))


def _absolute(path: Path) -> Path:
    """As it was given: the name of a link may say more than where it leads."""
    return path.expanduser().absolute()


def _is_in(words: Collection[str], path: Path) -> bool:
    """Whether a command names that file, whatever links lead to it."""
    return str(_absolute(path).resolve()) in words
