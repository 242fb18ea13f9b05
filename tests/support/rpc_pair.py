"""A pair of unequal devices on any machine: a fast small and a slow large RPC server of the engine.

The fast one runs under a limit of its address space, so that a configuration too large for it really runs out
of memory; the slow one has all the memory and a share of one core. The engine sees the devices RPC0 and RPC1.
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from tests.support import engine_setup

# Enough for 21 of SmolLM2's 31 units with a context of 8192 at f16, for 30 of them at q8_0. Where one more
# fits to within a MiB (f16 22,9) the server itself runs out of memory in its first computation and dies:
# hence `supervise`. Other limits only move that point.
FAST_LIMIT_BYTES = 210 * 1024 * 1024
FAST_THREADS = 2
SLOW_THREADS = 4  # more than it has cores: that is what makes it slow

# Without these a launch's fate depends on what ran before: glibc keeps freed memory inside the limit.
STEADY_MEMORY_ENV: Mapping[str, str] = MappingProxyType(
    {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1", "OMP_STACKSIZE": "256K"}
)

DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")

START_DEADLINE_S = 10.0
STOP_DEADLINE_S = 3.0
POLL_S = 0.02
SUPERVISE_S = 0.2
LOG_TAIL_LINES = 20


class RpcPairError(Exception):
    """An RPC server did not start or did not stop; the message holds its last words."""


class RpcPair:
    """Two RPC servers on free loopback ports, alive while the context is.

    Args:
        log_folder: Where `rpc-fast.log` and `rpc-slow.log` are written.
        program: The RPC server; that of the installed engine if left out.
        fast_limit_bytes: Limit of the fast server's address space; None for no limit.
        fast_threads: Threads of the fast server.
        slow_threads: Threads of the slow server.
        env: Added to both servers' environment, for example GGML_RPC_DEBUG=1.
    """

    def __init__(
        self,
        log_folder: Path,
        *,
        program: Path | None = None,
        fast_limit_bytes: int | None = FAST_LIMIT_BYTES,
        fast_threads: int = FAST_THREADS,
        slow_threads: int = SLOW_THREADS,
        env: Mapping[str, str] | None = None,
    ) -> None:
        program = program or engine_setup.rpc_server()
        fast_port, slow_port = _free_ports(2)
        limit = [] if fast_limit_bytes is None else ["prlimit", f"--as={fast_limit_bytes}", "--"]
        self._env = {**os.environ, **STEADY_MEMORY_ENV, **(env or {})}
        self._fast = _Server(
            argv=[*DIES_WITH_US, *limit, *_server_argv(program, fast_port, fast_threads)],
            port=fast_port,
            log=log_folder / "rpc-fast.log",
        )
        self._slow = _Server(
            argv=[*DIES_WITH_US, *_one_core(), *_server_argv(program, slow_port, slow_threads)],
            port=slow_port,
            log=log_folder / "rpc-slow.log",
        )
        # The kernel ends a server when the THREAD that started it ends: this one lives as long as the pair.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpc-pair-starter")
        self._stopping = threading.Event()
        self._supervisor: threading.Thread | None = None
        self._restarts = 0

    @property
    def endpoints(self) -> str:
        """Both addresses as `--rpc` takes them, the fast server first."""
        return f"127.0.0.1:{self._fast.port},127.0.0.1:{self._slow.port}"

    @property
    def ports(self) -> tuple[int, int]:
        """The ports of the fast and the slow server."""
        return self._fast.port, self._slow.port

    @property
    def pids(self) -> tuple[int, int]:
        """The process ids of the fast and the slow server, as of now."""
        return self._fast.pid, self._slow.pid

    @property
    def extra_flags(self) -> list[str]:
        """What llama-server needs on its command line to see the pair."""
        return ["--rpc", self.endpoints]

    @property
    def restarts(self) -> int:
        """How many dead servers have been started again."""
        return self._restarts

    def __enter__(self) -> Self:
        try:
            for server in (self._fast, self._slow):
                self._start(server)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def supervise(self) -> None:
        """Starts a dead server again on its port, from now until the pair is stopped."""
        if self._supervisor is None:
            self._supervisor = threading.Thread(
                target=self._keep_alive, name="rpc-pair-supervisor", daemon=True
            )
            self._supervisor.start()

    def stop(self) -> None:
        """Ends both servers; harmless when they have ended already."""
        self._stopping.set()
        if self._supervisor is not None:
            self._supervisor.join(START_DEADLINE_S + STOP_DEADLINE_S)
        for server in (self._fast, self._slow):
            server.terminate()
        for server in (self._fast, self._slow):
            server.wait_ended()
        self._starter.shutdown()

    def _start(self, server: "_Server") -> None:
        self._starter.submit(server.start, self._env).result(START_DEADLINE_S)
        server.wait_ready(self._stopping)

    def _keep_alive(self) -> None:
        while not self._stopping.wait(SUPERVISE_S):
            for server in (self._fast, self._slow):
                if not server.alive and not self._stopping.is_set():
                    self._restart(server)

    def _restart(self, server: "_Server") -> None:
        try:
            self._start(server)
        except RpcPairError as error:
            # The next round tries again; whoever wonders finds it in the server's log.
            server.note(f"could not be restarted: {error}")
        else:
            self._restarts += 1


@dataclass(slots=True)
class _Server:
    """One RPC server process and its log."""

    argv: list[str]
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RpcPairError(
                f"the RPC server on port {self.port} has not been started: use the pair with `with`"
            )
        return self.process.pid

    def start(self, env: Mapping[str, str]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, stopping: threading.Event) -> None:
        """Waits until the port accepts.

        Raises:
            RpcPairError: The server ended or did not accept in time.
        """
        deadline = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline:
            if not self.alive:
                raise self._error("ended at once")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
            except OSError:
                if stopping.wait(POLL_S):
                    return
            else:
                return
        raise self._error(f"did not accept within {START_DEADLINE_S:.0f} s")

    def terminate(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)

    def wait_ended(self) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_DEADLINE_S)

    def _error(self, what: str) -> RpcPairError:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return RpcPairError(
            "\n".join([f"{' '.join(self.argv)} {what}; {self.log} ends:", *lines[-LOG_TAIL_LINES:]])
        )

    def note(self, text: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"rpc-pair: {text}\n")


def _server_argv(program: Path, port: int, threads: int) -> list[str]:
    return [str(program), "--host", "127.0.0.1", "--port", str(port), "--threads", str(threads)]


def _one_core() -> list[str]:
    """Pins the slow server where cores abound; on two, more threads than cores slow it down enough."""
    cores = sorted(os.sched_getaffinity(0))
    return ["taskset", "--cpu-list", str(cores[-1])] if len(cores) > FAST_THREADS else []


def _free_ports(count: int) -> list[int]:
    """Finds free ports; all are held until the last is found, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
