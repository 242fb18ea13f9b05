"""One launch from start to end: load, check, warm up, ask, stop, and say what happened."""

from __future__ import annotations

import math
import secrets
import socket
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.asked import log_difference
from tuner.core.diagnosis import degraded
from tuner.core.interrupt import Interrupted, Interrupts
from tuner.core.launch import LaunchPlan, LaunchResult, LaunchSpec
from tuner.core.memory_lines import buffers_mib
from tuner.core.outcome import MEASURED, Kind, Outcome
from tuner.engine.client import Client
from tuner.engine.command_line import options_to_flags, serving_flags, with_rates_for
from tuner.engine.environment import TOKEN_VARIABLE
from tuner.engine.patience import Patience, Patiences
from tuner.engine.process import ServerProcess
from tuner.engine.session import Session
from tuner.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tuner.core.model import ModelFile
    from tuner.core.work import Work
    from tuner.core.workload import Workload
    from tuner.engine.device_watch import DeviceWatch
    from tuner.engine.probe import Engine


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts servers of one engine with one model on one rig."""

    engine: Engine
    model: ModelFile
    watch: DeviceWatch
    environment: Mapping[str, str]
    """What every server gets."""
    extra_flags: tuple[str, ...] = ()
    """The user's own, on every launch."""
    extra_names: frozenset[str] = frozenset()
    """Options that they set, and that are therefore not written a second time."""

    def portable_argv(self, spec: LaunchSpec) -> list[str]:
        """The command as a user would run it, without what the tuner adds for itself."""
        flags = list(spec.flags)
        if spec.candidate is not None:
            flags = [*options_to_flags(self.engine.help, spec.candidate, skip=self.extra_names), *flags]
        depth = 0 if spec.candidate is None else spec.candidate.draft_depth
        extra = with_rates_for(self.extra_flags, depth) if spec.takes_extra else ()
        # first the user's: a --device is looked up at once, so an --rpc that makes it has to stand before it
        return [str(self.engine.path), "-m", self.model.path, *extra, *flags]

    def plan(self, spec: LaunchSpec) -> LaunchPlan:
        """Everything that a launch needs, decided before it is journalled."""
        port, api_key, token = _free_port(), secrets.token_hex(16), secrets.token_hex(16)
        argv = self.portable_argv(spec)
        named = any(self.engine.help.canonical(word) == "alias" for word in argv)
        alias = None if named or self.engine.help.option("alias") is None else f"tuner-{token[:12]}"
        return LaunchPlan(
            argv=(*argv, *serving_flags(self.engine, port=port, api_key=api_key, alias=alias)),
            environment_changes=MappingProxyType({**spec.own_environment, TOKEN_VARIABLE: token}),
            port=port,
            api_key=api_key,
            token=token,
            alias=alias,
        )

    def run(
        self,
        spec: LaunchSpec,
        plan: LaunchPlan,
        workload: Workload,
        work: Work,
        *,
        log_path: Path,
        on_spawn: Callable[[int, float], None],
        interrupts: Interrupts,
        limit_s: float | None = None,
        slowest_load_s: float | None = None,
    ) -> LaunchResult:
        """Launch, let the work be done, stop.

        Args:
            spec: What to launch.
            plan: The launch in every detail, from `plan`.
            workload: How to ask: samplers, seed, and what warms it up.
            work: What is done with the server once it runs.
            log_path: Where the server's output goes.
            on_spawn: Is told the process id and its start time at once.
            interrupts: Requests to stop.
            limit_s: Seconds after which the launch is stopped wherever it is, as the run's time is over.
            slowest_load_s: The slowest load of this study so far, in seconds; None before the first.

        Raises:
            EngineError: The binary cannot be started at all.
        """
        environment = {**self.environment, **plan.environment_changes}
        start = time.monotonic()
        try:
            server = ServerProcess(plan.argv, environment, log_path)
        except OSError as error:
            raise EngineError(f"{plan.argv[0]} cannot be started: {error.strerror or error}") from error
        with server:
            on_spawn(server.pid, server.started_at)
            with (
                interrupts.serving(stop=server.break_off, kill=server.kill),
                Client(f"http://127.0.0.1:{plan.port}", plan.api_key) as client,
            ):
                session = Session(
                    spec.asked,
                    workload,
                    alias=plan.alias,
                    server=server,
                    client=client,
                    watch=self.watch,
                    patiences=Patiences.of(self.model, slowest_load_s),
                    limit=Patience(math.inf if limit_s is None else limit_s),
                    interrupts=interrupts,
                )
                try:
                    session.go(work)
                except Interrupted:
                    session.end(Outcome(Kind.STOPPED, phase=session.phase, evidence="asked to stop"))
                free = self.watch.free_mib() if server.exit_code() is None else {}
                stop = time.monotonic()
                exit_code = server.stop()
                shutdown_s = time.monotonic() - stop
        log = server.log()
        return LaunchResult(
            outcome=session.outcome or log_difference(spec.asked, log) or degraded(log) or MEASURED,
            samples=tuple(work.samples),
            load_s=(session.ready_at or stop) - start,
            requests_s=0.0
            if session.ready_at is None
            else (session.last_answer_at or stop) - session.ready_at,
            warmup_s=0.0 if session.ready_at is None else (session.warm_at or stop) - session.ready_at,
            shutdown_s=shutdown_s,
            exit_code=exit_code,
            buffers_mib=MappingProxyType(buffers_mib(log, self.watch.endpoints)),
            free_mib=MappingProxyType(dict(free)),
        )


def _free_port() -> int:
    """A port that is free now; if somebody takes it first, the engine says so within milliseconds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
