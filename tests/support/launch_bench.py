"""A launcher over the fake engine, candidates to launch, and what a launch tells."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from tests.support.gguf_files import write_gguf
from tuner.core.asked import Asked
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult, LaunchSpec
from tuner.core.options import BASE_OPTIONS, Value
from tuner.core.rig import Device, Rig
from tuner.core.workload import Prompt, PromptSet, Sampling, Thinking, Workload
from tuner.engine.device_watch import DeviceWatch
from tuner.engine.environment import server_environment
from tuner.engine.gguf import read_model
from tuner.engine.launcher import Launcher
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.support.fake_engine import FakeEngine
    from tuner.core.interrupt import Interrupts
    from tuner.core.measurement import Sample
    from tuner.engine.probe import Engine


LAYER: Mapping[str, Value] = {
    **BASE_OPTIONS,
    "device": ("CUDA0", "CUDA1"),
    "tensor-split": (2, 1),
    "ctx-size": 2048,
}
TENSOR: Mapping[str, Value] = {**LAYER, "split-mode": "tensor"}
MTP: Mapping[str, Value] = {**LAYER, "spec-type": "draft-mtp", "spec-draft-n-max": 3}
RIG = Rig((Device("CUDA0", "RTX 5080", 16303, 15900), Device("CUDA1", "RTX 3090", 24576, 24100)))
TOKENS = 9
DEADLINE_S = 10.0


def prompt(name: str) -> Prompt:
    return Prompt(name, "code", ({"role": "user", "content": f"Write {name}."},))


WORKLOAD = Workload(
    PromptSet("set", prompt("warm-up"), (prompt("one"), prompt("two")), "digest"),
    TOKENS,
    Sampling(),
    Thinking.AUTO,
    seed=1,
)


class NeverInterrupted:
    """Nobody asks to stop."""

    requested = False

    def check(self) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @contextlib.contextmanager
    def serving(self, *, stop: Callable[[], object], kill: Callable[[], object]) -> Iterator[None]:  # noqa: ARG002
        yield


@dataclass(slots=True)
class Bench:
    """A launcher over the fake, and what a launch told it."""

    fake: FakeEngine
    launcher: Launcher
    folder: Path
    spawned: list[tuple[int, float]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @property
    def log_path(self) -> Path:
        return self.folder / "server.log"

    def run(
        self,
        options: Mapping[str, Value] = LAYER,
        *,
        asked: Asked | None = None,
        interrupts: Interrupts | None = None,
        limit_s: float | None = None,
        spec: LaunchSpec | None = None,
        on_sample: Callable[[Sample], str | None] | None = None,
    ) -> LaunchResult:
        if spec is None:
            drafts = options["spec-type"] != "none"
            spec = LaunchSpec(Candidate.of(options), asked=asked or Asked(2048, 1, drafts=drafts))
        return self.launcher.run(
            spec,
            self.launcher.plan(spec),
            WORKLOAD,
            Benchmark(WORKLOAD, spec.asked, on_sample or self.samples.append),
            log_path=self.log_path,
            on_spawn=lambda pid, started_at: self.spawned.append((pid, started_at)),
            interrupts=interrupts or NeverInterrupted(),
            limit_s=limit_s,
        )

    def is_gone(self) -> bool:
        """Whether every server that was started has ended."""
        return not any(psutil.pid_exists(pid) for pid, _ in self.spawned)


def make_bench(folder: Path, fake: FakeEngine, engine: Engine) -> Bench:
    empty = folder / "config"
    empty.mkdir()
    launcher = Launcher(
        engine=engine,
        model=read_model(write_gguf(folder / "small.gguf")),
        watch=DeviceWatch(RIG),
        environment=server_environment(fake.environment(), empty, allow_p2p=False),
    )
    return Bench(fake, launcher, folder)
