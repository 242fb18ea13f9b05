"""One of several workers on a study in a real database, whose engine and rig are played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.launch_bench import NeverInterrupted
from tests.support.played_proof import answers
from tests.support.played_run import DEFAULT, USERS, PlayedRun, candidate
from tuner.core.interrupt import Interrupted
from tuner.runs.worker import WorkerRun
from tuner.study import Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.shared_study import SharedBench
    from tuner.core.launch import LaunchSpec
    from tuner.runs.ending import Ending

SIZES = (64, 128, 256, 512, 1024)
RATES = {
    USERS.key: 45.0,
    DEFAULT.key: 30.0,
    **{candidate(size).key(): rate for size, rate in zip(SIZES, (35.0, 50.0, 55.0, 36.0, 37.0), strict=True)},
}
POLL_S = 0.02


@dataclass
class PlayedInterrupts(NeverInterrupted):
    """Nobody asks to stop unless a test does, and something may happen while a worker stands by."""

    requested: bool = False
    asleep: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.asleep()
        if self.requested:
            raise Interrupted
        super().sleep(seconds)


@dataclass
class PlayedWorker:
    """A worker; every `go` is a process of its own."""

    bench: SharedBench
    name: str
    folder: Path
    speed: float = 1.0
    """What its rig makes of the usual rates."""
    interrupts: PlayedInterrupts = field(default_factory=PlayedInterrupts)
    run: PlayedRun = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.start()

    def start(self) -> None:
        """A new process: what was in memory is gone."""
        self.store = self.bench.store(self.name)
        self.run = PlayedRun(self.folder, interrupts=self.interrupts, shared=self.store)
        self.run.launcher.plays = lambda spec: answers(RATES[spec.key] * self.speed)

    def worker(
        self,
        launches: int | None = None,
        *,
        references: tuple[LaunchSpec, ...] = (USERS, DEFAULT),
        starts: tuple[int, ...] = SIZES,
        confirm_blocks: int = 2,
        **options: Any,  # noqa: ANN401 - those of PlayedRun.tuner
    ) -> WorkerRun:
        """All that there is, and the winner proved."""
        tuner = self.run.tuner(
            launches or len(references) + len(starts),
            references=references,
            starts=starts,
            confirm_blocks=confirm_blocks,
            worthwhile=0.01,
            **options,
        )
        return WorkerRun(
            tuner,
            tuner._plan,
            store=self.store,
            worker=Worker(self.name, f"host-{self.name}"),
            progress=self.run.progress,
            interrupts=self.interrupts,
            poll_s=POLL_S,
        )

    def go(self, launches: int | None = None, **options: Any) -> Ending:  # noqa: ANN401 - as above
        """Work to the end."""
        return self.worker(launches, **options).run()

    def stop_after(self, launches: int) -> None:
        """Somebody asks to stop after so many launches of this process."""

        def launched(_log_path: Path) -> None:
            self.interrupts.requested = len(self.launched) > launches

        self.run.launcher.meanwhile = launched
        self.run.launcher.stops = lambda _launched: self.interrupts.requested

    @property
    def launched(self) -> list[str]:
        """Keys of what this process has launched, in order."""
        return self.run.launched

    @property
    def notes(self) -> list[str]:
        """What it said."""
        return self.run.progress.notes
