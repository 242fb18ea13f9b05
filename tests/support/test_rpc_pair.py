import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.rpc_pair import FAST_LIMIT_BYTES, RpcPair, RpcPairError

pytestmark = pytest.mark.server

DEADLINE_S = 10.0


@pytest.fixture
def pair_maker(rpc_server_path: Path, tmp_path: Path) -> Callable[[], RpcPair]:
    return lambda: RpcPair(tmp_path, program=rpc_server_path)


def test_both_ports_accept_and_are_named_as_the_engine_takes_them(rpc_pair: RpcPair) -> None:
    fast, slow = rpc_pair.ports

    assert fast != slow
    assert _accepts(fast)
    assert _accepts(slow)
    assert rpc_pair.extra_flags == ["--rpc", f"127.0.0.1:{fast},127.0.0.1:{slow}"]


def test_only_the_fast_server_is_limited_in_memory(rpc_pair: RpcPair) -> None:
    fast, slow = (psutil.Process(pid) for pid in rpc_pair.pids)

    assert fast.rlimit(psutil.RLIMIT_AS) == (FAST_LIMIT_BYTES, FAST_LIMIT_BYTES)
    assert slow.rlimit(psutil.RLIMIT_AS) == (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY)


def test_each_server_leads_its_own_process_group(rpc_pair: RpcPair) -> None:
    assert [os.getpgid(pid) for pid in rpc_pair.pids] == list(rpc_pair.pids)


def test_a_killed_server_comes_back_on_its_port(pair_maker: Callable[[], RpcPair]) -> None:
    with pair_maker() as pair:
        pair.supervise()
        ports, (fast_pid, slow_pid) = pair.ports, pair.pids

        os.kill(fast_pid, signal.SIGKILL)

        _wait_for(lambda: pair.restarts == 1)
        assert pair.ports == ports
        assert pair.pids[0] != fast_pid
        assert pair.pids[1] == slow_pid
        assert _accepts(ports[0])


def test_without_supervision_a_killed_server_stays_dead(pair_maker: Callable[[], RpcPair]) -> None:
    with pair_maker() as pair:
        fast_pid = pair.pids[0]

        os.kill(fast_pid, signal.SIGKILL)

        _wait_for(lambda: not _accepts(pair.ports[0]))
        assert pair.pids[0] == fast_pid
        assert pair.restarts == 0


def test_both_are_gone_after_the_context_even_under_supervision(pair_maker: Callable[[], RpcPair]) -> None:
    with pair_maker() as pair:
        pair.supervise()
        ports, pids = pair.ports, pair.pids

    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not any(_accepts(port) for port in ports)


def test_servers_outlive_the_thread_that_started_the_pair(pair_maker: Callable[[], RpcPair]) -> None:
    pair = pair_maker()
    thread = threading.Thread(target=pair.__enter__)
    thread.start()
    thread.join(DEADLINE_S)
    try:
        assert all(_accepts(port) for port in pair.ports)
        assert not any(_ended(pid) for pid in pair.pids)
    finally:
        pair.stop()


def test_servers_die_with_a_killed_parent(rpc_server_path: Path, tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from tests.support.rpc_pair import RpcPair\n"
        "pair = RpcPair(pathlib.Path(sys.argv[1]), program=pathlib.Path(sys.argv[2])).__enter__()\n"
        "print(*pair.pids, flush=True); sys.stdin.read()"
    )
    with psutil.Popen(
        [sys.executable, "-c", script, str(tmp_path), str(rpc_server_path)],
        stdin=-1,
        stdout=-1,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]

        parent.kill()

    assert len(pids) == 2
    _wait_for(lambda: all(_ended(pid) for pid in pids))


def test_a_server_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "rpc"
    program.write_text("#!/bin/sh\necho no device here >&2\nexit 3\n")
    program.chmod(0o755)

    with (
        pytest.raises(RpcPairError, match=r"(?s)ended at once.*no device here"),
        RpcPair(tmp_path, program=program),
    ):
        pass


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _ended(pid: int) -> bool:
    # An orphan may stay a zombie for a while: that depends on the machine's first process.
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)
