"""Prompts as a folder of text files: each file is what a user says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tuner.core.workload import Prompt
from tuner.errors import PromptError
from tuner.prompts.entry import Entry, Place, decoded

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOP_CLASS = "user"


def read_folder(folder: Path) -> tuple[Entry, ...]:
    """The prompts of a folder and of what lies in it, sorted by name, whatever the files are called.

    A prompt's id is its file's name within the folder; its class is the sub-folder that it lies in, the
    uppermost of several. What is hidden is left alone. White space at a file's end is the editor's.

    Raises:
        PromptError: There is no file, or one that cannot be read, is no UTF-8, or is empty.
    """
    found = tuple(_entry(folder, path) for path in sorted(_files(folder), key=lambda path: path.parts))
    if not found:
        raise PromptError(f"{folder}: holds no file; put texts into it, a prompt each")
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Their paths within the folder."""

    def unreadable(error: OSError) -> NoReturn:
        raise PromptError(
            f"{error.filename}: cannot be read ({error.strerror}); make it readable or take it out"
        ) from error

    for root, below, names in os.walk(folder, onerror=unreadable):
        below[:] = [name for name in below if not _is_hidden(name)]
        for name in names:
            if not _is_hidden(name):
                yield Path(root, name).relative_to(folder)


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _entry(folder: Path, path: Path) -> Entry:
    file = str(folder / path)
    place = Place(file.encode(errors="backslashreplace").decode())
    if place.file != file:
        raise place.error("its name is not UTF-8; give it another name")
    text = decoded(file, _read(place)).rstrip()
    if not text:
        raise place.error("holds no text; write what the user says, or take the file out")
    prompt = Prompt(
        id=path.as_posix(),
        prompt_class=path.parts[0] if len(path.parts) > 1 else _TOP_CLASS,
        messages=({"role": "user", "content": text},),
    )
    return Entry(place, prompt)


def _read(place: Place) -> bytes:
    path = Path(place.file)
    try:
        if path.exists() and not path.is_file():
            raise place.error("is no file that can be read; take it out")  # a pipe would be waited for
        return path.read_bytes()
    except OSError as error:
        raise place.error(f"cannot be read ({error.strerror}); make it readable or take it out") from error
