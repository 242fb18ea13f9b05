"""The search spaces that come with the tuner, and the user's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import tuner
from tuner.core.space_document import parse_space
from tuner.errors import SpaceError

if TYPE_CHECKING:
    from tuner.core.space import SearchSpace
    from tuner.core.space_document import Cores

#: The space of a run that names none.
DEFAULT_SPACE = "dual-gpu"


def shipped_spaces() -> dict[str, Path]:
    """The files of the shipped spaces, by name: in the package, or beside it in a checkout."""
    package = Path(tuner.__file__).parent
    for folder in (package / "search_spaces", package.parent / "search_spaces"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return {}


def load_space(name_or_path: str, cores: Cores | None = None) -> SearchSpace:
    """The shipped space of that name, else the one in that file.

    Args:
        name_or_path: As it stands on the command line.
        cores: The host's, for spaces that vary threads.

    Raises:
        SpaceError: There is none, it is no TOML, or something in it is wrong.
    """
    shipped = shipped_spaces()
    path = shipped.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise SpaceError(
            f"--space {name_or_path}: there is no such space or file; shipped are {', '.join(shipped)}"
        )
    name = path.stem if name_or_path in shipped else str(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SpaceError(f"{name}: is no TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"{name}: cannot be read: {error}") from error
    return parse_space(name, document, cores)
