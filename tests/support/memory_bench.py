"""Launches the engine over two RPC servers that write down what each of them is asked for.

In tensor mode the engine prints no size of a single device: what its RPC servers say tells them.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import httpx

from tests.support.rpc_pair import DIES_WITH_US, RpcPair
from tuner.core.assignment.splits import Splits
from tuner.core.candidate import Candidate
from tuner.core.memory.predict import Predictor
from tuner.engine.command_line import options_to_flags
from tuner.engine.environment import server_environment
from tuner.engine.fit_params import FitParams
from tuner.engine.gguf import read_model
from tuner.engine.probe import list_devices, probe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.core.memory.need import Prediction
    from tuner.core.options import Value
    from tuner.engine.probe import Engine

DEVICES = ("RPC0", "RPC1")
_MIB = 2**20
_LOGS = ("rpc-fast.log", "rpc-slow.log")
_START_DEADLINE_S = 60.0
_END_DEADLINE_S = 15.0
_POLL_S = 0.02

BASE: dict[str, Value] = {
    "device": DEVICES,
    "gpu-layers": 99,
    "split-mode": "layer",
    "ctx-size": 8192,
    "parallel": 1,
    "batch-size": 2048,
    "ubatch-size": 512,
    "flash-attn": "on",
}

_ASKED = re.compile(r"\[alloc_buffer\] device: 0, size: (\d+)")


@dataclass(frozen=True, slots=True)
class Launch:
    """What one launch said and did."""

    log: str
    asked_mib: tuple[tuple[float, ...], ...]
    """Buffers that each RPC server was asked for, in that order; those of size 0 left out."""


@dataclass(frozen=True)
class MemoryBench:
    """The engine with two RPC servers that write down what they are asked for."""

    server: Path
    model_path: Path
    pair: RpcPair
    folder: Path

    @cached_property
    def environment(self) -> dict[str, str]:
        return server_environment(os.environ, self.folder / "no-config", allow_p2p=False)

    @cached_property
    def engine(self) -> Engine:
        return probe(self.server, self.environment)

    @cached_property
    def splits(self) -> Splits:
        return Splits(read_model(self.model_path))

    @cached_property
    def predictor(self) -> Predictor:
        return Predictor(self.splits, list_devices(self.engine, self.environment, self.pair.endpoints))

    @cached_property
    def fit_params(self) -> FitParams:
        found = FitParams.find(self.engine, self.environment)
        assert found is not None
        return found

    def predict(self, options: dict[str, Value]) -> Prediction:
        return self.predictor.predict({**BASE, **options})

    def launch(self, options: dict[str, Value], words: tuple[str, ...] = ()) -> Launch:
        """Start a server, wait until it answers or has ended, end it. Nothing is requested of it.

        Args:
            options: Of a candidate; those of `BASE` where they say nothing.
            words: More of the command line, as a user would write it.
        """
        _wait_until(
            self._has_all_been_written, _END_DEADLINE_S
        )  # else an earlier client's good-bye is counted
        for name in _LOGS:
            os.truncate(self.folder / name, 0)  # the servers append
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = self.folder / "server.log"
        argv = [
            *(*DIES_WITH_US, str(self.server), "-m", str(self.model_path), *self.pair.extra_flags),
            *options_to_flags(self.engine.help, Candidate.of({**BASE, **options})),
            *words,
            # at 5 it names the device of each layer; warming up computes, and asks for nothing more
            *("-fit", "off", "-lv", "5", "--no-warmup", "--host", "127.0.0.1", "--port", str(port)),
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(argv, env=self.environment, stdout=output, stderr=output)
        try:
            _wait_until(lambda: process.poll() is not None or _is_healthy(port), _START_DEADLINE_S)
            process.terminate()
            process.wait(_END_DEADLINE_S)
        finally:
            process.kill()
            process.wait()
        _wait_until(self._has_all_been_written, _END_DEADLINE_S)
        return Launch(
            log.read_text(encoding="utf-8", errors="replace"),
            tuple(
                tuple(int(size) / _MIB for size in _ASKED.findall(text) if int(size))
                for text in self._server_logs()
            ),
        )

    def _server_logs(self) -> list[str]:
        return [(self.folder / name).read_text(encoding="utf-8", errors="replace") for name in _LOGS]

    def _has_all_been_written(self) -> bool:
        """Whether each RPC server has said good-bye to every client, or has died of one."""
        return all(
            text.count("Accepted client connection") == text.count("Client connection closed")
            or not server.alive
            for text, server in zip(self._server_logs(), (self.pair._fast, self.pair._slow), strict=True)
        )


def _wait_until(happened: Callable[[], bool], deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while not happened():
        assert time.monotonic() < end, f"not within {deadline_s:.0f} s"
        time.sleep(_POLL_S)


def _is_healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=1.0).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def talking_pair(program: Path, folder: Path) -> RpcPair:
    """A pair without a limit of memory that writes down what it is asked for."""
    return RpcPair(folder, program=program, fast_limit_bytes=None, env={"GGML_RPC_DEBUG": "1"})
