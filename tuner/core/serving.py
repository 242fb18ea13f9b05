"""Where and as what a tuned command is served: what its owner may set without changing what was measured."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Spellings of flags that have one value and are set here; all builds have them.
MODEL = ("-m", "--model")
ALIAS = ("-a", "--alias")


@dataclass(frozen=True, slots=True)
class Serving:
    """What the owner sets; None leaves it to the command and to the engine."""

    model_path: str | None = None
    host: str | None = None
    port: int | None = None
    api_key_file: str | None = None
    alias: str | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """Host, port and key as flags of llama-server."""
        named = (("--host", self.host), ("--port", self.port), ("--api-key-file", self.api_key_file))
        return tuple(word for flag, value in named if value is not None for word in (flag, str(value)))

    @property
    def is_open(self) -> bool:
        """Whether other machines reach it and nothing keeps them from asking."""
        if self.host is None or self.api_key_file is not None:
            return False
        return not all(_is_own(host.strip()) for host in self.host.split(","))

    def applied(self, words: Sequence[str]) -> tuple[str, ...]:
        """A command's words with what is set here, and nothing else changed.

        Args:
            words: What follows the program.
        """
        changed = list(words)
        if self.model_path is not None:
            changed = _with(changed, MODEL, self.model_path)
        if self.alias is not None:
            changed = _with(changed, ALIAS, self.alias)
        return (*changed, *self.flags)


def value_of(words: Sequence[str], spellings: Sequence[str]) -> str | None:
    """The value of a flag, the last one if it is repeated; None where it is not there."""
    places = [at for at, word in enumerate(words[:-1]) if word in spellings]
    return words[places[-1] + 1] if places else None


def _with(words: list[str], spellings: Sequence[str], value: str) -> list[str]:
    """The words with another value of a flag wherever it stands; at the end where it stands nowhere."""
    places = [at for at, word in enumerate(words[:-1]) if word in spellings]
    for at in places:
        words[at + 1] = value
    return words if places else [*words, spellings[-1], value]


def _is_own(host: str) -> bool:
    """Whether only this machine reaches it there: a loopback address, or a UNIX socket."""
    if host == "localhost" or host.endswith(".sock"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
