"""Servers as child processes: started apart, ended for sure, and nobody else's touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tuner.engine import process as process_module
from tuner.engine.environment import TOKEN_VARIABLE
from tuner.engine.patience import Patience
from tuner.engine.process import ServerProcess, end_orphan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}
WAITING = "echo up; exec sleep 60"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.02; done"
STUBBORN = "trap 'n=$((n+1)); [ $n = 2 ] && exit 7' TERM; echo up; while :; do sleep 0.02; done"
DEADLINE_S = 5.0
ROOT = Path(__file__).parents[2]


def wait_until(met: Callable[[], object]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not met():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def started(folder: Path, body: str) -> ServerProcess:
    """A server of that body in a shell, once it has said something."""
    environment = {**ENVIRONMENT, TOKEN_VARIABLE: "ours"}
    server = ServerProcess(["/bin/sh", "-c", body], environment, folder / "server.log")
    wait_until(lambda: server.log_size() > 0)
    return server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines for tests; only that of the kernel stays long, since nothing waits for it."""
    monkeypatch.setattr(process_module, "FIRST_TERM_S", 0.2)
    monkeypatch.setattr(process_module, "SECOND_TERM_S", 0.2)


# --- a server of ours


def test_server_runs_apart_and_writes_to_its_log(tmp_path: Path) -> None:
    with started(tmp_path, "echo out; echo err >&2; exec sleep 60") as server:
        wait_until(lambda: server.log() == "out\nerr\n")
        assert server.exit_code() is None
        assert os.getpgid(server.pid) == os.getsid(server.pid) == server.pid != os.getpgid(0)
        assert server.started_at == psutil.Process(server.pid).create_time()
    assert server.exit_code() == -signal.SIGTERM


def test_its_environment_is_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "512")
    argv = ["/usr/bin/env"]
    with ServerProcess(argv, {"ONLY": "this"}, tmp_path / "server.log") as server:
        wait_until(lambda: server.exit_code() is not None)
    assert server.log() == "ONLY=this\n"


def test_log_of_broken_bytes_is_still_read(tmp_path: Path) -> None:
    with started(tmp_path, "printf 'a\\377b\\n'") as server:
        assert server.log() == "a\N{REPLACEMENT CHARACTER}b\n"


def test_program_that_does_not_exist_is_named_in_the_log(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    with ServerProcess([missing], ENVIRONMENT, tmp_path / "server.log") as server:
        wait_until(lambda: server.exit_code() is not None)
    assert server.exit_code() == 127
    assert missing in server.log()


def test_without_setpriv_a_server_starts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with started(tmp_path, WAITING) as server:
        assert server.exit_code() is None
    with pytest.raises(FileNotFoundError):
        ServerProcess([str(tmp_path / "none")], ENVIRONMENT, tmp_path / "server.log")


def test_server_does_not_outlive_a_killed_tuner(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from tuner.engine.process import ServerProcess; "
        f"server = ServerProcess(['/bin/sh', '-c', {DEAF!r}], {ENVIRONMENT!r}, pathlib.Path(sys.argv[1])); "
        "print(server.pid, flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "server.log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as tuner:
        assert tuner.stdout is not None
        pid = int(tuner.stdout.readline())
        server = psutil.Process(pid)
        # for its first milliseconds it is `setpriv`, which has not asked the kernel yet
        wait_until(lambda: (tmp_path / "server.log").read_text(encoding="utf-8") == "up\n")
        assert lives(pid)
        tuner.kill()
    try:
        wait_until(lambda: not lives(pid))
    finally:
        if lives(pid):
            server.kill()


def test_exit_code_is_that_of_the_server(tmp_path: Path) -> None:
    with started(tmp_path, "echo up; exit 3") as server:
        wait_until(lambda: server.exit_code() is not None)
        assert server.stop() == 3
    with started(tmp_path, "ulimit -c 0; echo up; kill -ABRT $$") as server:
        wait_until(lambda: server.exit_code() is not None)
        assert server.stop() == -signal.SIGABRT


def test_server_ends_when_the_context_is_left_by_an_error(tmp_path: Path) -> None:
    server = started(tmp_path, WAITING)
    with pytest.raises(ZeroDivisionError), server:
        raise ZeroDivisionError
    assert not lives(server.pid)


@pytest.mark.usefixtures("impatient")
def test_second_request_ends_a_server_that_waits_for_its_clients(tmp_path: Path) -> None:
    with started(tmp_path, STUBBORN) as server:
        assert server.stop() == 7


@pytest.mark.usefixtures("impatient")
def test_server_that_ignores_sigterm_is_killed_in_time(tmp_path: Path) -> None:
    with started(tmp_path, DEAF) as server:
        start = time.monotonic()
        assert server.stop() == -signal.SIGKILL
        assert 0.4 <= time.monotonic() - start < 2.0
    assert not lives(server.pid)


def test_children_of_a_server_that_died_are_ended_with_it(tmp_path: Path) -> None:
    """A crash may leave a debugger behind, in the server's group."""
    with started(tmp_path, "sleep 60 & echo $!; exit 1") as server:
        wait_until(lambda: server.exit_code() is not None)
        child = int(server.log())
        assert lives(child)
    wait_until(lambda: not lives(child))


@pytest.mark.parametrize("token", ["", "theirs"])
def test_stranger_in_a_group_of_that_number_is_not_touched(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a server that was collected can be another group's by now."""
    foreign = f"{TOKEN_VARIABLE}={token}" if token else f"-u {TOKEN_VARIABLE}"
    with started(tmp_path, f"env {foreign} sleep 60 & echo $!; sleep 60 & echo $!; exit 1") as server:
        wait_until(lambda: server.exit_code() is not None)
        stranger, child = map(int, server.log().split())
        wait_until(lambda: psutil.Process(stranger).name() == "sleep")
        assert os.getpgid(stranger) == os.getpgid(child) == server.pid
        # a collected server is not signalled by its number either
        monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("a group was signalled"))
    try:
        wait_until(lambda: not lives(child))
        assert lives(stranger)
    finally:
        psutil.Process(stranger).kill()


def test_kernel_ends_a_server_first_when_memory_runs_out(tmp_path: Path) -> None:
    with started(tmp_path, WAITING) as server:
        assert Path(f"/proc/{server.pid}/oom_score_adj").read_text(encoding="ascii") == "1000\n"
        assert Path("/proc/self/oom_score_adj").read_text(encoding="ascii") != "1000\n"


def test_stopping_twice_is_no_error(tmp_path: Path) -> None:
    server = started(tmp_path, WAITING)
    assert server.stop() == server.stop() == -signal.SIGTERM


# --- a server of a tuner that was killed


@pytest.fixture
def orphan() -> Iterator[Callable[..., psutil.Process]]:
    """Starts a process in a session of its own that is nobody's child, as after a kill of its tuner."""
    made: list[psutil.Process] = []

    def make(token: str = "", body: str = "exec sleep 60") -> psutil.Process:
        variables = {**ENVIRONMENT, "BODY": body} | ({TOKEN_VARIABLE: token} if token else {})
        launch = 'setsid sh -c "$BODY" >/dev/null 2>&1 </dev/null & echo $!'
        pid = int(subprocess.check_output(["/bin/sh", "-c", launch], env=variables, timeout=DEADLINE_S))
        process = psutil.Process(pid)
        made.append(process)
        wait_until(
            lambda: os.getpgid(pid) == pid and process.cmdline()[:1] == ["sleep" if "exec" in body else "sh"]
        )
        return process

    yield make
    for process in made:
        if lives(process.pid):
            process.kill()


def test_orphan_is_found_by_pid_and_start_time(orphan: Callable[..., psutil.Process]) -> None:
    process = orphan()
    assert end_orphan(process.pid, process.create_time(), "unknown token")
    assert not lives(process.pid)


def test_orphan_is_found_by_its_token_alone(orphan: Callable[..., psutil.Process]) -> None:
    """The tuner died between the start and writing down the pid."""
    process, other = orphan(token="ours"), orphan(token="theirs")
    assert end_orphan(0, 0.0, "ours")
    assert not lives(process.pid)
    assert lives(other.pid)


@pytest.mark.usefixtures("impatient")
def test_orphan_that_ignores_sigterm_is_killed(orphan: Callable[..., psutil.Process]) -> None:
    process = orphan(body="trap '' TERM; while :; do sleep 0.02; done")
    assert end_orphan(process.pid, process.create_time(), "unknown token")
    assert not lives(process.pid)


def test_process_that_got_the_pid_later_is_not_touched(orphan: Callable[..., psutil.Process]) -> None:
    process = orphan()
    assert not end_orphan(process.pid, process.create_time() - 60, "unknown token")
    assert lives(process.pid)


def test_pid_that_is_gone_is_no_orphan(tmp_path: Path) -> None:
    with started(tmp_path, WAITING) as server:
        pass
    assert not end_orphan(server.pid, server.started_at, "unknown token")


def test_process_that_ended_and_waits_to_be_collected_is_no_orphan() -> None:
    child = subprocess.Popen(["/bin/true"], start_new_session=True)
    started_at = psutil.Process(child.pid).create_time()
    wait_until(lambda: not lives(child.pid))
    assert not end_orphan(child.pid, started_at, "unknown token")
    child.wait(DEADLINE_S)


def test_we_are_no_orphan_of_ours() -> None:
    assert not end_orphan(os.getpid(), psutil.Process().create_time(), "unknown token")


# --- deadlines


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    patience = Patience(2.0)
    assert (patience.seconds, patience.left_s, patience.over) == (2.0, 2.0, False)
    now_s[0] = 101.5
    assert (patience.left_s, patience.over) == (0.5, False)
    now_s[0] = 103.0
    assert (patience.left_s, patience.over) == (0.0, True)


def test_what_it_reads_from_disks_is_told_while_it_lives(tmp_path: Path) -> None:
    with started(tmp_path, WAITING) as server:
        read_mib = server.disk_read_mib()
        assert read_mib is not None
        assert 0 <= read_mib < 100
        server.stop()
        assert server.disk_read_mib() is None
