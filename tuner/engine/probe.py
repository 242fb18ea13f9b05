"""What an engine is and can do: asked of the binary itself, nothing is launched."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.rig import Device
from tuner.engine.help_text import HelpText
from tuner.engine.linked import linked_libraries
from tuner.errors import EngineError, RigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A CUDA build loads its libraries and asks each card; some seconds on a cold disk.
PROBE_TIMEOUT_S = 60.0
#: An RPC server that serves somebody else leaves a second client waiting for ever.
RPC_TIMEOUT_S = 20.0

_DEVICE = re.compile(
    r"^\s*(?P<name>[A-Za-z][\w.]*): (?P<description>.*) \((?P<total>\d+) MiB, (?P<free>\d+) MiB free\)\s*$"
)
_VERSION = re.compile(r"version:.*")
_OWN_LIBRARY = re.compile(r"lib(ggml|llama|mtmd)[\w.-]*\.so")
_NO_CONNECTION = "Failed to connect"
_SIGILL = -4
_NO_LIBRARY = 127


@dataclass(frozen=True, slots=True)
class Engine:
    """A llama-server binary."""

    path: Path
    digest: str
    """SHA-256 over the binary and its own libraries: what tells two engines apart."""
    version: str
    """Its version line: a label only, packaged builds often print a false number."""
    help: HelpText
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """SHA-256 of the binary and of each of its own libraries, by file name."""

    @property
    def hides_memory_lines(self) -> bool:
        """Whether memory lines need `-lv 4`: so from 9246 on, which is when `--no-log-prefix` came."""
        return self.help.entry("--no-log-prefix") is not None


def probe(path: Path, environment: Mapping[str, str]) -> Engine:
    """Ask a binary for its help and version.

    Raises:
        EngineError: It is missing, cannot be executed, lacks a library, or is no llama-server.
    """
    help_text = read_help(path, environment)
    version = _ask(path, ["--version"], environment)
    label = _VERSION.search(version.stderr + version.stdout)
    files = _digests(path.resolve(), environment)
    return Engine(
        path=path.resolve(),
        digest=_digest(files),
        version=label[0].strip() if label else "unknown version",
        help=help_text,
        files=MappingProxyType({name: digest.hex() for name, digest in files}),
    )


def read_help(path: Path, environment: Mapping[str, str]) -> HelpText:
    """Ask a binary for its help alone.

    Raises:
        EngineError: As of `probe`.
    """
    if path.is_dir():
        raise EngineError(f"{path} is a folder; give the llama-server in it (--server {path}/llama-server)")
    if not path.is_file():
        raise EngineError(f"{path}: no such file; give the path of a llama-server with --server")
    if not os.access(path, os.X_OK):
        raise EngineError(f"{path} is not executable; run: chmod +x {path}")
    help_text = HelpText(_ask(path, ["--help"], environment).stdout)
    if help_text.option("split-mode") is None or help_text.option("port") is None:
        raise EngineError(f"{path} is no llama-server: its --help lists no --split-mode or no --port")
    return help_text


def digest_at(path: Path, environment: Mapping[str, str]) -> str | None:
    """What tells the engine at that path from others, without running it; None where there is none."""
    try:
        return _digest(_digests(path.resolve(), environment)) if path.is_file() else None
    except OSError:
        return None


def list_devices(engine: Engine, environment: Mapping[str, str], rpc: str | None) -> tuple[Device, ...]:
    """The devices that the engine sees, in its own order.

    Args:
        engine: The engine to ask.
        environment: The environment that its servers will have.
        rpc: `host:port,...` of RPC servers that the user gives it.

    Raises:
        EngineError: The engine cannot be asked.
        RigError: An RPC server does not answer.
    """
    if engine.help.option("list-devices") is None:
        raise EngineError(
            f"{engine.path} has no --list-devices, so that nobody can tell which devices it sees; take a newer build"
        )
    flags = ["--rpc", rpc] if rpc else []
    answer = _ask(engine.path, [*flags, "--list-devices"], environment, check=False)
    if answer.returncode != 0:
        said = (answer.stderr + answer.stdout).strip().splitlines()
        lost = next((line for line in said if _NO_CONNECTION in line), None)
        if lost is not None:
            text = lost[lost.index(_NO_CONNECTION) :].strip()
            raise RigError(f"{text}; start ggml-rpc-server there, or correct --rpc {rpc}")
        raise EngineError(f"{engine.path} --list-devices ended with {answer.returncode}: {_tail(said)}")
    rows = (_DEVICE.match(line) for line in answer.stdout.splitlines())
    return tuple(
        Device(
            name=row["name"],
            description=row["description"],
            total_mib=int(row["total"]),
            free_mib=int(row["free"]),
        )
        for row in rows
        if row is not None
    )


def _ask(
    path: Path, flags: Sequence[str], environment: Mapping[str, str], *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    shown = f"{path} {' '.join(flags)}"
    patience_s = RPC_TIMEOUT_S if "--rpc" in flags else PROBE_TIMEOUT_S
    try:
        answer = subprocess.run(
            [str(path), *flags],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        hint = "an RPC server answers one client at a time" if "--rpc" in flags else "does it run by hand?"
        raise EngineError(f"{shown} did not end within {patience_s:.0f} s; {hint}") from error
    except OSError as error:
        raise EngineError(f"{path} cannot be started: {error.strerror or error}") from error
    said = answer.stderr.strip().splitlines()
    if answer.returncode == _NO_LIBRARY or "error while loading shared libraries" in answer.stderr:
        raise EngineError(f"{path} lacks a library: {_tail(said)}; set LD_LIBRARY_PATH or rebuild llama.cpp")
    if answer.returncode == _SIGILL:
        raise EngineError(f"{path} was built for another processor (SIGILL); use a build for this one")
    if check and answer.returncode != 0:
        raise EngineError(f"{shown} ended with {answer.returncode}: {_tail(said)}")
    return answer


def _digests(path: Path, environment: Mapping[str, str]) -> list[tuple[str, bytes]]:
    """Name and SHA-256 of the binary and of its own libraries."""
    found = []
    for file in (path, *own_libraries(path, environment)):
        with file.open("rb") as stream:
            found.append((file.name, hashlib.file_digest(stream, "sha256").digest()))
    return found


def _digest(files: Sequence[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(name.encode())
        digest.update(content)
    return digest.hexdigest()


def own_libraries(path: Path, environment: Mapping[str, str]) -> list[Path]:
    """Libraries of llama.cpp that the binary loads or, as back ends, may load from its own folder."""
    found = {file.resolve() for file in path.parent.iterdir() if _OWN_LIBRARY.match(file.name)}
    found |= {
        Path(name).resolve()
        for name in linked_libraries(path, environment)
        if _OWN_LIBRARY.match(Path(name).name)
    }
    return sorted((file for file in found if file.is_file()), key=lambda file: (file.name, str(file)))


def _tail(lines: Sequence[str]) -> str:
    return lines[-1].strip() if lines else "it said nothing"
