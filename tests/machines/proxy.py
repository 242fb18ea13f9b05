"""Optuna's gRPC proxy of a database, as docs/many-machines.md starts it, on a free port of loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

from tests.support.postgres import free_port

if TYPE_CHECKING:
    from types import TracebackType

_PROGRAM = """
import sys
from optuna.storages import RDBStorage, get_storage, run_grpc_proxy_server
storage = get_storage(RDBStorage(sys.argv[1], engine_kwargs={"pool_pre_ping": True}))
run_grpc_proxy_server(storage, host="127.0.0.1", port=int(sys.argv[2]))
"""
_DEADLINE_S = 30.0


class Proxy:
    """A process that stands between the workers and a database."""

    def __init__(self, url: str) -> None:
        self.port = free_port()
        self._database = url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What workers are given."""
        return f"grpc://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        argv = [sys.executable, "-W", "ignore", "-c", _PROGRAM, self._database, str(self.port)]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end_s = time.monotonic() + _DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
            except OSError:
                assert self._process.poll() is None
                assert time.monotonic() < end_s
                time.sleep(0.05)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(_DEADLINE_S)
