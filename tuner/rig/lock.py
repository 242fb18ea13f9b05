"""One tuner on a device at a time, whichever user started it.

Two tuners on one device would measure each other. Each device has a file in a folder that all users share,
and a tuner holds the kernel's lock (`flock`) on the files of its devices. The kernel drops a lock when its
holder dies in whatever way, so none is ever stale, and the files stay: removing one would let two tuners
lock two files of the same name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tuner.errors import RigError

if TYPE_CHECKING:
    from types import TracebackType

_FOLDER_MODE = 0o1777
"""As /tmp: everybody makes files, nobody removes another's."""
_FILE_MODE = 0o666
"""Whoever comes next writes its process id, whoever made the file."""
_OPEN_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 10
"""A file can vanish between two steps (something cleans the folder), but hardly ten times in a row."""
_NOTE_BYTES = 64
_NOTE = re.compile(rb"(\d{1,10}) (\d{1,20})\n")


def shared_folder() -> Path:
    """The folder that the tuners of all users of this machine share."""
    return Path(tempfile.gettempdir()) / "split-ratio-tuner"


class RigLock:
    """Holds the devices of a rig for this process: a context manager.

    Args:
        identity: What identifies the devices: `Rig.identity`.
        folder: Where the files are; `shared_folder()` if None.
        what: What is locked, as messages name it.
    """

    def __init__(
        self, identity: tuple[str, ...], folder: Path | None = None, *, what: str = "device"
    ) -> None:
        self._what = what
        # In one order for everybody, so that of two tuners that start at once on overlapping rigs one wins.
        self._identities = sorted(set(identity))
        self._folder = shared_folder() if folder is None else folder
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Take all devices, or none; never waits.

        Raises:
            RigError: Another process has one of them, or the folder cannot be used.
        """
        with contextlib.ExitStack() as stack:
            folder_fd = _open_folder(self._folder)
            stack.callback(os.close, folder_fd)
            held = stack.enter_context(contextlib.ExitStack())
            for identity in self._identities:
                held.callback(_release, self._take(identity, folder_fd))
            self._held = held.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give all devices back."""
        self._held.close()

    def _take(self, identity: str, folder_fd: int) -> int:
        """A descriptor that holds the device's lock."""
        name = _file_name(identity)
        path = self._folder / name
        try:
            for _ in range(_ATTEMPTS):
                with contextlib.ExitStack() as stack:
                    fd = _open_file(name, folder_fd)
                    stack.callback(os.close, fd)
                    _lock(fd, f"{self._what} {identity}", path)
                    # If another file has the name by now, the next tuner would lock that one.
                    if _is_current(fd, name, folder_fd):
                        _write_note(fd)
                        stack.pop_all()
                        return fd
        except OSError as error:
            raise RigError(
                f"The lock {path} of {self._what} {identity} cannot be used: {error.strerror or error}. "
                "Remove it (its owner may), then start again."
            ) from error
        raise RigError(
            f"The lock {path} of {self._what} {identity} vanishes whenever it is made. "
            f"Stop what cleans {self._folder}, then start again."
        )


def holder_of(identity: str, folder: Path | None = None) -> int | None:
    """The process that holds a lock, by its own note and without touching it; None where none can be seen to.

    Args:
        identity: What is locked.
        folder: Where the files are; `shared_folder()` if None.
    """
    path = (shared_folder() if folder is None else folder) / _file_name(identity)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def _open_folder(folder: Path) -> int:
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            folder.chmod(_FOLDER_MODE)  # mkdir's mode is cut by the umask
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise RigError(
            f"The folder of rig locks {folder} cannot be used: {error.strerror or error}. "
            "It has to be a folder that every user may write to: remove what is there (its owner may)."
        ) from error


def _file_name(identity: str) -> str:
    """Readable, safe in a path, and different for different identities."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '_', identity)[:80]}-{digest}.lock"


def _open_file(name: str, folder_fd: int) -> int:
    """Open the file, made if need be.

    Never with O_CREAT on a file that exists: the kernel (fs.protected_regular) refuses that in a folder
    like this one if the file is another user's.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            return os.open(name, _OPEN_FLAGS, dir_fd=folder_fd)
        with contextlib.suppress(FileExistsError):
            fd = os.open(name, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, _FILE_MODE, dir_fd=folder_fd)
            os.fchmod(fd, _FILE_MODE)  # the mode above is cut by the umask
            return fd
    raise FileNotFoundError(f"{name} appears and vanishes")


def _lock(fd: int, what: str, path: Path) -> None:
    """Lock an open file without waiting.

    Raises:
        RigError: Another process has the lock.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RigError(_taken(what, path, _holder(fd))) from None


def _taken(what: str, path: Path, holder: int | None) -> str:
    taken = f"{what[:1].upper()}{what[1:]} is in use by another tuner"
    if holder is None:
        return (
            f"{taken}, in a process that cannot be seen from here "
            f"(another user's, or in a container). Wait for it to end, find it with `fuser {path}`, "
            "or tune on other devices."
        )
    return (
        f"{taken}, process {holder}. Wait for it to end, "
        f"stop it with `kill {holder}`, or tune on other devices."
    )


def _is_current(fd: int, name: str, folder_fd: int) -> bool:
    """Whether the name still leads to the open file."""
    try:
        there = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def _write_note(fd: int) -> None:
    """Say who holds the lock. The lock counts without it, so a full disk does not stop a run here."""
    pid = os.getpid()
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{pid} {_started_ticks(pid)}\n".encode(), 0)


def _release(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
    # Closing alone leaves the lock with a child that has been forked but has not started its program yet.
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _holder(fd: int) -> int | None:
    """The process that the file names, if it is alive and no later process with the same id."""
    note = _NOTE.fullmatch(os.pread(fd, _NOTE_BYTES, 0))
    if note is None:
        return None
    pid, started_ticks = int(note[1]), int(note[2])
    return pid if _started_ticks(pid) == started_ticks else None


def _started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did; None if it cannot be seen."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, and may itself hold spaces and parentheses;
    # counting after it, the start (field 22) is the 20th.
    return int(text.rpartition(")")[2].split()[19])
