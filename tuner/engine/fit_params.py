"""The engine's own reckoning of memory: `llama-fit-params`, which lies beside llama-server and loads nothing.

It overstates the compute buffer of the device with the output (it reserves logits for a whole ubatch), knows
nothing of drafts, and adds all devices up in tensor mode.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from tuner.core.memory.oracle import FitRow
from tuner.engine.help_text import HelpText

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tuner.core.memory.query import MemoryQuery
    from tuner.engine.probe import Engine

PROGRAM = "llama-fit-params"
#: A CUDA build loads its libraries first; each RPC server has to be connected to as well.
TIMEOUT_S = 30.0
RPC_TIMEOUT_S = 60.0

#: For `-ngl`: no model has as many layers.
_ALL_LAYERS = 999
#: Whatever can go wrong with a program: it does not start, does not end, or takes no such words.
_FAILURES = (OSError, ValueError, subprocess.SubprocessError)
_MODES = frozenset({"layer", "none"})
_ROW = re.compile(r"^\s*(?P<device>\S+) (?P<model>\d+) (?P<context>\d+) (?P<compute>\d+)\s*$", re.MULTILINE)


class FitParams:
    """Asks the tool; each question once.

    Args:
        path: The tool.
        help_text: What its `--help` lists.
        environment: The environment of the servers, so that it sees the same devices as they do.
        timeout_s: How long an answer may take.
        rpc_timeout_s: The same where RPC servers are asked too.
    """

    def __init__(
        self,
        path: Path,
        help_text: HelpText,
        environment: Mapping[str, str],
        *,
        timeout_s: float = TIMEOUT_S,
        rpc_timeout_s: float = RPC_TIMEOUT_S,
    ) -> None:
        self.path = path
        self._help = help_text
        self._environment = environment
        self._timeout_s = timeout_s
        self._rpc_timeout_s = rpc_timeout_s
        self._answers: dict[tuple[str, ...], tuple[FitRow, ...] | None] = {}
        self._hung = False

    @classmethod
    def find(
        cls,
        engine: Engine,
        environment: Mapping[str, str],
        *,
        timeout_s: float = TIMEOUT_S,
        rpc_timeout_s: float = RPC_TIMEOUT_S,
    ) -> FitParams | None:
        """The tool of an engine; None where there is none that prints what it has worked out."""
        path = engine.path.with_name(PROGRAM)
        if not (path.is_file() and os.access(path, os.X_OK)):
            return None
        try:
            said = _run([str(path), "--help"], environment, timeout_s)
        except _FAILURES:
            return None
        help_text = HelpText(said or "")
        if help_text.spelling("fit-print") is None:
            return None
        return cls(path, help_text, environment, timeout_s=timeout_s, rpc_timeout_s=rpc_timeout_s)

    def ask(
        self, query: MemoryQuery, split: tuple[int, ...], *, model_path: str, rpc: str | None
    ) -> tuple[FitRow, ...] | None:
        """What a launch takes of each device, without its drafts; the `Host` has a row too.

        Once an answer has not come in time, nothing is asked any more: the next one would cost as much.

        Args:
            query: What the model is started with.
            split: The split that the engine uses, one proportion a device.
            model_path: The model, or its first shard.
            rpc: `host:port,...` of RPC servers; None for none.

        Returns:
            One row a device; None where the tool cannot tell, or fails.
        """
        flags = self._flags(query, split, model_path, rpc)
        if flags is None:
            return None
        if flags not in self._answers:
            answer = (
                None if self._hung else self._answer(flags, self._rpc_timeout_s if rpc else self._timeout_s)
            )
            names = {row.device for row in answer or ()}
            self._answers[flags] = answer if names >= set(query.devices) else None
        return self._answers[flags]

    def propose(
        self,
        devices: Sequence[str],
        n_ctx: int,
        margin_mib: Mapping[str, int],
        *,
        model_path: str,
        rpc: str | None,
    ) -> str | None:
        """What the tool would start the model with, as it prints it; None where it cannot tell, or fails.

        Args:
            devices: The engine's names of them, in order.
            n_ctx: Tokens of context.
            margin_mib: What is to stay free of each device, by name.
            model_path: The model, or its first shard.
            rpc: `host:port,...` of RPC servers; None for none.
        """
        settings: list[tuple[str, str]] = [
            ("model", model_path),
            *([("rpc", rpc)] if rpc else []),
            ("device", ",".join(devices)),
            ("ctx-size", str(n_ctx)),
            ("fit-target", ",".join(str(margin_mib.get(name, 0)) for name in devices)),
        ]
        spelled = [(self._help.spelling(name), value) for name, value in settings]
        if self._hung or any(spelling is None for spelling, _ in spelled):
            return None
        words = [word for spelling, value in spelled for word in (str(spelling), value)]
        try:
            return _run(
                [str(self.path), *words], self._environment, self._rpc_timeout_s if rpc else self._timeout_s
            )
        except _FAILURES:
            return None

    def _answer(self, flags: tuple[str, ...], timeout_s: float) -> tuple[FitRow, ...] | None:
        try:
            said = _run([str(self.path), *flags], self._environment, timeout_s)
        except subprocess.TimeoutExpired:
            self._hung = True
            return None
        except _FAILURES:
            return None
        rows = tuple(
            FitRow(row["device"], int(row["model"]), int(row["context"]), int(row["compute"]))
            for row in _ROW.finditer(said or "")
        )
        return rows or None

    def _flags(
        self, query: MemoryQuery, split: tuple[int, ...], model_path: str, rpc: str | None
    ) -> tuple[str, ...] | None:
        """The command line but for the program; None for what the tool cannot be asked."""
        if query.mode not in _MODES or (query.mode == "none" and query.n_devices > 1):
            return None
        if query.state_rows != max(query.parallel, 1):
            return None  # drafts give recurrent layers more rows
        if any("," in one.pattern for one in query.overrides):
            return None  # a comma parts one pattern from the next
        layers = query.gpu_layers if 0 <= query.gpu_layers < _ALL_LAYERS else _ALL_LAYERS
        settings: list[tuple[str, str | None]] = [
            ("model", model_path),
            *([("rpc", rpc)] if rpc else []),  # before --device, which names what lies behind it
            ("device", ",".join(query.devices) or "none"),
            ("gpu-layers", str(layers)),
            ("split-mode", query.mode),
            *([("tensor-split", ",".join(map(str, split)))] if query.n_devices > 1 and any(split) else []),
            ("ctx-size", str(query.n_ctx)),
            ("parallel", str(max(query.parallel, 1))),
            ("batch-size", str(query.ubatch)),
            ("ubatch-size", str(query.ubatch)),
            ("flash-attn", "on" if query.flash_attention else "off"),
            ("cache-type-k", query.type_k),
            ("cache-type-v", query.type_v),
            *([("kv-unified", None)] if query.kv_unified and query.parallel > 1 else []),
            *([("swa-full", None)] if query.swa_full else []),
            *([("override-tensor", ",".join(map(str, query.overrides)))] if query.overrides else []),
            ("fit", "off"),
            ("fit-print", "on"),
        ]
        flags: list[str] = []
        for name, value in settings:
            spelling = self._help.spelling(name)
            if spelling is None:
                return None
            flags += [spelling] if value is None else [spelling, value]
        for name, is_on in (("kv-offload", query.kv_offload), ("op-offload", query.op_offload)):
            entry = None if is_on else self._help.option(name)
            if entry is not None and entry.negation is not None:
                flags.append(entry.negation)
            elif not is_on:
                return None
        return tuple(flags)


def _run(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> str | None:
    """What a program prints; None where it fails."""
    answer = subprocess.run(
        argv,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    return answer.stdout if answer.returncode == 0 else None
