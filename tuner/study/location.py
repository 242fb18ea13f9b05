"""Where a study that several machines work on lies: an address, and never its password in what is printed or kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The environment variable that may hold the whole address, a password too.
VARIABLE = "TUNER_STORAGE"
_FORMS = "postgresql+psycopg://USER@HOST/DATABASE, or grpc://HOST:PORT for Optuna's proxy in front of one"
_POSTGRES, _GRPC = "postgresql+psycopg", "grpc"
_SECRET_PARTS = ("password", "passfile", "sslpassword")
_ENCODE = (
    "in user and password all but letters, digits and - . _ ~ is written with its code, such as %40 for @"
)


@dataclass(frozen=True, slots=True)
class Location:
    """An address of a storage.

    Args:
        url: Whole, a password too.
    """

    url: str = field(repr=False)

    @classmethod
    def parse(cls, url: str, source: str) -> Self:
        """Read one.

        Args:
            url: As given.
            source: Where it was given, for messages.

        Raises:
            UsageError: It is none that can be used.
        """
        parts = _split(url.strip(), source)
        if parts.scheme == "postgresql":
            parts = parts._replace(scheme=_POSTGRES)
        if parts.scheme not in {_POSTGRES, _GRPC}:
            raise UsageError(f"{source}: {_shown(parts)!r} is no storage for several machines; give {_FORMS}")
        if parts.scheme == _GRPC and (parts.hostname is None or parts.port is None or parts.path.strip("/")):
            raise UsageError(f"{source}: {_shown(parts)!r} has to be grpc://HOST:PORT and nothing more")
        if parts.scheme == _POSTGRES and not parts.path.strip("/"):
            raise UsageError(f"{source}: {_shown(parts)!r} names no database; give {_FORMS}")
        return cls(urlunsplit(parts))

    @property
    def is_grpc(self) -> bool:
        """Whether it is Optuna's proxy."""
        return self.url.startswith(f"{_GRPC}:")

    @property
    def has_password(self) -> bool:
        """Whether the address itself holds one."""
        parts = urlsplit(self.url)
        named = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
        return bool(parts.password) or bool(named.intersection(_SECRET_PARTS))

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Of a proxy."""
        parts = urlsplit(self.url)
        return parts.hostname or "localhost", parts.port or 0

    def __str__(self) -> str:
        """The address as it may be read by anyone: without user, password and parameters."""
        return _shown(urlsplit(self.url))


def location_of(
    option: str | None, file: Path | None, environ: Mapping[str, str], *, required: bool = False
) -> Location | None:
    """The storage that the user means; None for the study's own folder.

    Args:
        option: `--storage` as typed; everybody on the machine can read it, so it holds no password.
        file: `--storage-file`: its first line is the address.
        environ: The user's environment.
        required: Whether there has to be one.

    Raises:
        UsageError: It cannot be used, or it shows a password to everybody.
    """
    if option is not None and file is not None:
        raise UsageError("--storage and --storage-file: give one of them")
    if option is not None:
        location = Location.parse(option, "--storage")
        if location.has_password:
            raise UsageError(
                "--storage: a password on the command line can be read by everyone on this machine. Leave it out and "
                f"put it into ~/.pgpass or PGPASSWORD, or the whole address into {VARIABLE} or --storage-file FILE"
            )
        return location
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--storage-file {file} cannot be read: {error}") from error
        if not lines[0].strip():
            raise UsageError(f"--storage-file {file}: its first line is to be the address: {_FORMS}")
        return Location.parse(lines[0], f"--storage-file {file}")
    if environ.get(VARIABLE, "").strip():
        return Location.parse(environ[VARIABLE], VARIABLE)
    if required:
        raise UsageError(f"--storage URL: {_FORMS}; or set {VARIABLE}")
    return None


def _split(url: str, source: str) -> SplitResult:
    """Take an address apart; nothing of one that cannot be is quoted: where its password ends is not known.

    Raises:
        UsageError: It cannot be.
    """
    unclear = UsageError(f"{source}: no address of a storage that can be read; give {_FORMS}; {_ENCODE}")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its words hold what was taken for the port
        raise unclear from None
    behind_host = (parts.path, parts.query, parts.fragment)
    if parts.netloc.count("@") > 1 or any("@" in part for part in behind_host):
        raise unclear  # a password with one of / ? # @ in it was cut there
    return parts


def _shown(parts: SplitResult) -> str:
    if parts.scheme not in {_POSTGRES, _GRPC}:
        return f"{parts.scheme}:..." if parts.scheme else "(no address)"
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path}"
