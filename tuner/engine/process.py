"""One llama-server as a child process: its own process group, its output in a file, ended for sure."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

from tuner.engine.environment import TOKEN_VARIABLE
from tuner.engine.log_file import CappedLog
from tuner.engine.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

#: After SIGTERM a server finishes what it does; a second one ends it at once (server.cpp); then SIGKILL.
FIRST_TERM_S = 10.0
#: As long as that where nobody is interested in its answer any more.
HURRIED_TERM_S = 0.5
SECOND_TERM_S = 3.0
#: A killed process can wait for its driver; so long is waited for the kernel to let go of it.
KILL_S = 30.0
POLL_S = 0.02


class ServerProcess:
    """A running server; leaving the context ends it.

    Attributes:
        pid: Its process id, which is also its process group.
        started_at: Its start time as the kernel counts it, in seconds; with the pid it names one process.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], log_path: Path) -> None:
        self._log = CappedLog(log_path)
        self._token = environment.get(TOKEN_VARIABLE)
        with self._log.open() as log:
            self._process = subprocess.Popen(
                [*_dies_with_us(), *argv],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.started_at = psutil.Process(self.pid).create_time()
        _first_to_go(self.pid)

    def __enter__(self) -> Self:
        self._log.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._log.__exit__(kind, error, trace)

    def exit_code(self) -> int | None:
        """As `subprocess` gives it; None while it runs."""
        return self._process.poll()

    def host_mib(self) -> float | None:
        """Host memory that it holds for itself; None where the kernel does not say, or it has ended."""
        try:
            memory = psutil.Process(self.pid).memory_info()
        except psutil.Error:
            return None
        return float(memory.rss - getattr(memory, "shared", 0)) / 2**20  # mapped weights are the page cache's

    def disk_read_mib(self) -> float | None:
        """What it has read from disks so far, mapped files among it; None where the kernel does not say."""
        try:
            return float(psutil.Process(self.pid).io_counters().read_bytes) / 2**20
        except (psutil.Error, OSError, AttributeError):  # another user's, or a kernel without I/O accounting
            return None

    def log(self) -> str:
        """Everything that it has printed so far."""
        return self._log.text()

    def log_size(self) -> int:
        """Bytes printed so far: that it grows is a sign of life."""
        return self._log.size()

    def stop(self) -> int:
        """End it and everything in its group, and wait until it is gone.

        Returns:
            Its exit code. If the kernel does not let go of it in time, the code of SIGKILL.
        """
        self._terminate(FIRST_TERM_S)
        return self._process.returncode if self._process.returncode is not None else -signal.SIGKILL

    def break_off(self) -> None:
        """As `stop`, in the middle of its work, which it need not finish."""
        self._terminate(HURRIED_TERM_S)

    def _terminate(self, first_term_s: float) -> None:
        for sign, patience_s in ((signal.SIGTERM, first_term_s), (signal.SIGTERM, SECOND_TERM_S)):
            if self._process.poll() is not None:
                break
            self._signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        self.kill()

    def kill(self) -> None:
        """End the whole group at once; a server that died may have left children (gdb on a crash)."""
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_S)
        for process in self._left_in_group():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _left_in_group(self) -> list[psutil.Process]:
        """What is left of its group; the number may be a stranger's by now, so the token decides."""
        left = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if os.getpgid(process.pid) == self.pid and _has_token(process, self._token):
                    left.append(process)
        return left

    def _signal(self, sign: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, sign)


def _dies_with_us() -> list[str]:
    """A prefix that has the kernel kill the server when the thread that starts it ends, however that ends.

    Hence servers are started from the main thread. Where there is no `setpriv` (util-linux 2.33), and in the
    few milliseconds before it has done its work, a server can outlive a killed tuner: the next run ends it.
    """
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--"]


def _first_to_go(pid: int) -> None:
    """When memory runs out, the kernel is to end the server, not the desktop or the tuner."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")


def _has_token(process: psutil.Process, token: str | None) -> bool:
    return token is not None and process.environ().get(TOKEN_VARIABLE) == token


def end_orphan(pid: int, started_at: float, token: str) -> bool:
    """End a server that a killed tuner has left behind.

    It is recognised by pid and start time together, or by the token in its environment: never by its name or
    its port.

    Args:
        pid: From the journal; 0 where the tuner died before it could write it down.
        started_at: From the journal.
        token: The token that was journalled before the launch.

    Returns:
        Whether one was found, and ended.
    """
    found = [process for process in _candidates(pid, started_at, token) if process.pid != os.getpid()]
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGTERM)
            else:
                process.terminate()
    for process in _still_alive(found, SECOND_TERM_S):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _still_alive(found, KILL_S)
    return bool(found)


def _candidates(pid: int, started_at: float, token: str) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        # the kernel counts start times in ticks of 10 ms
        if pid and abs((process := psutil.Process(pid)).create_time() - started_at) < 0.05:
            return [process] if _lives(process) else []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(TOKEN_VARIABLE) == token:
                found.append(process)
    return found


def _still_alive(processes: Sequence[psutil.Process], patience_s: float) -> list[psutil.Process]:
    """Wait until all have ended; those that have not when the time is over."""
    patience = Patience(patience_s)
    while (alive := [process for process in processes if _lives(process)]) and not patience.over:
        time.sleep(POLL_S)
    return alive


def _lives(process: psutil.Process) -> bool:
    """Whether it runs; one that has ended and is never collected (init of some containers) does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
