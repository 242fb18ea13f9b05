"""Builds of llama.cpp whose help text is known without running them: it comes with the package."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from tuner.engine.help_text import HelpText
from tuner.errors import UsageError


@dataclass(frozen=True, slots=True)
class KnownBuild:
    """One build, and what its llama-server lists."""

    number: int
    """As llama.cpp counts its builds: b11434."""
    help: HelpText


@cache
def known_builds() -> tuple[KnownBuild, ...]:
    """All of them, the oldest first."""
    folder = resources.files("tuner.engine").joinpath("help")
    texts = {
        int(file.name.removesuffix(".txt")): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".txt")
    }
    return tuple(KnownBuild(number, HelpText(texts[number])) for number in sorted(texts))


def newest_build() -> KnownBuild:
    """The newest of them."""
    return known_builds()[-1]


def known_build(number: int) -> KnownBuild:
    """The build of that number.

    Raises:
        UsageError: Its help text is not known.
    """
    for build in known_builds():
        if build.number == number:
            return build
    numbers = ", ".join(str(build.number) for build in known_builds())
    raise UsageError(
        f"build {number}: its help text is not known; known are {numbers}, or give a llama-server"
    )
