"""The rig's lock, against real processes."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tuner.errors import RigError
from tuner.rig.lock import RigLock, holder_of, shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys
from pathlib import Path
from tuner.rig.lock import RigLock
with RigLock(tuple(sys.argv[2:]), Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


HOLDER_WITH_SERVER = """
import subprocess, sys
from pathlib import Path
from tuner.rig.lock import RigLock
SERVER = "import sys; print('held', flush=True); print(sys.stdin.readline(), flush=True)"
with RigLock(tuple(sys.argv[2:]), Path(sys.argv[1])):
    subprocess.run([sys.executable, "-c", SERVER], close_fds=False)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@contextmanager
def holder(folder: Path, *identity: str, program: str = HOLDER) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds these devices."""
    argv = [sys.executable, "-c", program, str(folder), *identity]
    with subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def is_lock(descriptor: str, folder: Path) -> bool:
    link = Path("/proc/self/fd", descriptor)
    return link.is_symlink() and link.readlink().is_relative_to(folder) and link.readlink() != folder


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_rig_in_use_is_refused_with_device_and_process(folder: Path) -> None:
    with (
        holder(folder, "GPU-a", "GPU-b") as other,
        pytest.raises(RigError, match=rf"GPU-b is in use .*process {other.pid}\..*kill {other.pid}"),
        RigLock(("GPU-b", "GPU-c"), folder),
    ):
        pytest.fail("two tuners hold one device")


def test_a_refused_rig_leaves_none_of_its_devices_locked(folder: Path) -> None:
    with holder(folder, "GPU-b"):
        with pytest.raises(RigError), RigLock(("GPU-a", "GPU-b"), folder):
            pass
        with RigLock(("GPU-a",), folder):
            pass


def test_a_killed_holder_leaves_no_lock(folder: Path) -> None:
    with holder(folder, "GPU-a") as other:
        other.kill()
        other.wait(timeout=30)
        with RigLock(("GPU-a",), folder):
            pass


def test_a_holder_that_ends_leaves_no_lock_and_no_note(folder: Path) -> None:
    with holder(folder, "GPU-a") as other:
        other.communicate(timeout=30)
        assert other.returncode == 0
    assert [path.read_bytes() for path in files(folder)] == [b""]
    with RigLock(("GPU-a",), folder):
        pass


def test_disjoint_rigs_do_not_block_each_other(folder: Path) -> None:
    with holder(folder, "GPU-a", "GPU-b"), holder(folder, "GPU-c"), RigLock(("GPU-d",), folder):
        pass


def test_one_process_cannot_take_a_rig_twice(folder: Path) -> None:
    with (
        RigLock(("GPU-a",), folder),
        pytest.raises(RigError, match=f"process {os.getpid()}\\."),
        RigLock(("GPU-a",), folder),
    ):
        pytest.fail("taken twice")


def test_a_lock_can_be_taken_again(folder: Path) -> None:
    lock = RigLock(("GPU-a",), folder)
    for _ in range(2):
        with lock, pytest.raises(RigError), RigLock(("GPU-a",), folder):
            pass


def test_a_device_named_twice_is_locked_once(folder: Path) -> None:
    with RigLock(("GPU-a", "GPU-a"), folder):
        assert len(files(folder)) == 1


def test_an_error_inside_frees_the_rig(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), RigLock(("GPU-a",), folder):
        _ = 1 / 0
    with RigLock(("GPU-a",), folder):
        pass


def test_a_server_that_outlives_a_killed_tuner_does_not_keep_the_rig(folder: Path) -> None:
    with holder(folder, "GPU-a", program=HOLDER_WITH_SERVER) as tuner:
        tuner.kill()
        tuner.wait(timeout=30)
        with RigLock(("GPU-a",), folder):
            pass
        assert tuner.stdin is not None
        assert tuner.stdout is not None
        print("still there", file=tuner.stdin, flush=True)
        assert tuner.stdout.readline() == "still there\n"


def test_a_copy_of_the_process_does_not_keep_a_rig_that_was_given_back(folder: Path) -> None:
    with RigLock(("GPU-a",), folder):
        (fd,) = (int(name) for name in open_descriptors() if is_lock(name, folder))
        copy = os.dup(fd)  # as a fork has it, until it starts its program
    with RigLock(("GPU-a",), folder):
        os.close(copy)


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"nonsense",
        b"1 2 3\n",
        b"-1 5\n",
        b"\xff\xfe\n",
        b"99999999999999999999 1\n",
        b"4194999 1\n",  # above any pid that Linux gives
        b"1 999999999999999999\n",  # alive, but not the process that wrote this
    ],
    ids=repr,
)
def test_a_note_that_cannot_be_believed_names_no_process(folder: Path, note: bytes) -> None:
    with RigLock(("GPU-a",), folder):
        (path,) = files(folder)
        path.write_bytes(note)
        with (
            pytest.raises(
                RigError, match="GPU-a is in use by another tuner, in a process that cannot be seen"
            ),
            RigLock(("GPU-a",), folder),
        ):
            pytest.fail("two tuners hold one device")


def test_every_user_may_use_folder_and_files_whatever_the_umask(folder: Path) -> None:
    umask = os.umask(0o077)
    try:
        with RigLock(("GPU-a",), folder):
            (path,) = files(folder)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        os.umask(umask)


def test_file_names_are_safe_and_different(folder: Path) -> None:
    identity = ("RPC0:../../etc/passwd", "RPC0:.._.._etc/passwd", "x" * 1000, "CUDA0:Größe")
    with RigLock(identity, folder):
        names = [path.name for path in files(folder)]
    assert len(names) == len(identity)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name) for name in names)


def test_a_link_in_place_of_a_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    with RigLock(("GPU-a",), folder):
        (path,) = files(folder)
    path.unlink()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)
    with (
        pytest.raises(RigError, match=f"{re.escape(str(path))} of device GPU-a"),
        RigLock(("GPU-a",), folder),
    ):
        pytest.fail("followed a link")
    assert victim.read_text() == "precious"


def test_a_link_in_place_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    with pytest.raises(RigError, match=re.escape(str(folder))), RigLock(("GPU-a",), folder):
        pytest.fail("followed a link")
    assert files(elsewhere) == []


def test_a_file_in_place_of_the_folder_is_named(folder: Path) -> None:
    folder.write_text("in the way")
    with pytest.raises(RigError, match=re.escape(str(folder))), RigLock(("GPU-a",), folder):
        pytest.fail("no folder")


def test_a_file_removed_while_it_is_locked_is_made_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    real_flock = fcntl.flock
    removed: list[Path] = []

    def flock_and_clean(fd: int, operation: int) -> None:
        real_flock(fd, operation)
        if not removed:
            removed.extend(files(folder))
            removed[0].unlink()

    monkeypatch.setattr(fcntl, "flock", flock_and_clean)
    with RigLock(("GPU-a",), folder):
        assert files(folder) == removed
        with pytest.raises(RigError, match="in use"), RigLock(("GPU-a",), folder):
            pytest.fail("two tuners hold one device")


def test_no_descriptor_is_left_open(folder: Path) -> None:
    before = open_descriptors()
    with RigLock(("GPU-a", "GPU-b"), folder), pytest.raises(RigError), RigLock(("GPU-b",), folder):
        pass
    assert open_descriptors() == before


def test_a_rig_without_devices_needs_no_lock(folder: Path) -> None:
    with RigLock((), folder):
        assert files(folder) == []


def test_the_shared_folder_is_in_the_systems_temporary_folder() -> None:
    assert shared_folder() == Path(tempfile.gettempdir()) / "split-ratio-tuner"


def test_who_holds_a_lock_can_be_seen_without_taking_it(folder: Path) -> None:
    assert holder_of("GPU-a", folder) is None
    with RigLock(("GPU-a",), folder):
        assert holder_of("GPU-a", folder) == os.getpid()
        assert holder_of("GPU-b", folder) is None
    assert holder_of("GPU-a", folder) is None


def test_the_note_of_a_holder_that_is_gone_names_nobody(folder: Path) -> None:
    with RigLock(("GPU-a",), folder):
        note = files(folder)[0].read_bytes()
    files(folder)[0].write_bytes(note.replace(b" ", b" 1"))  # another process has that id by now
    assert holder_of("GPU-a", folder) is None
