"""What a whole run to a proven winner is played with: rates with noise, and a clock that only launches move."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from math import exp
from typing import TYPE_CHECKING

from tests.support.played_run import PlayedRun
from tests.support.played_server import PlayedServer
from tests.support.trials import a_sample
from tuner.core.launch import LaunchResult
from tuner.core.outcome import Outcome
from tuner.runs import launching, measuring, searching, soaking, study_run
from tuner.runs.works.soaking import Endurance, Soak

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tuner.core.launch import LaunchSpec
    from tuner.core.trial import Purpose, TrialRecord
    from tuner.core.work import Work


class Killed(BaseException):
    """The tuner has died."""


def answers(rate: float, text: str = "def f(): pass") -> LaunchResult:
    """One answer a prompt of the workload, which has two."""
    samples = tuple(
        a_sample(prompt_id=name, predicted_ms=100 / rate * 1000, text=text) for name in ("one", "two")
    )
    return LaunchResult(Outcome(), samples=samples)


@dataclass
class PlayedTime:
    """Seconds by a clock that launches move, and a server's own clock while one is put to the test."""

    launch_s: Callable[[int], float] = lambda _before: 10.0
    """What a launch takes before anything is asked, told how many there were before."""
    began: list[float] = field(default_factory=list)
    """When each launch began."""
    _base: float = 0.0
    _server: PlayedServer | None = None

    def monotonic(self) -> float:
        return self._base + (0.0 if self._server is None else self._server.now)

    def launch(self) -> None:
        """A server is started."""
        self.began.append(self.monotonic())
        self._base += self.launch_s(len(self.began) - 1)

    def serve(self, server: PlayedServer) -> PlayedServer:
        """From now on, what that server does takes its time."""
        self._base = self.monotonic()
        self._server = server
        return server

    def rules(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be the clock of runs."""
        for module in (study_run, searching, measuring, soaking, launching):
            monkeypatch.setattr(module, "time", self)
        for work in (Soak, Endurance):
            monkeypatch.setattr(soaking, work.__name__, partial(work, now_s=self.monotonic))


@dataclass
class ProofBench:
    """A run of which a test says how fast what is; the n-th launch of the same has the same noise, cut or not."""

    run: PlayedRun
    time: PlayedTime
    rates: dict[str, float]
    """Tokens a second, by key."""
    noise: float = 0.01
    """Standard deviation of the logarithm of a launch's rate."""
    seed: int = 1
    luck: dict[str, float] = field(default_factory=dict)
    """What the first launch of some is multiplied by."""
    tests: dict[str, Callable[[], PlayedServer]] = field(default_factory=dict)
    """The servers that some are put to the test with; usual ones for the others."""
    cut: Callable[[], None] = lambda: None
    """What happens as a server is started."""

    @classmethod
    def made(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, rates: dict[str, float]) -> ProofBench:
        """A run in that folder, by a clock of its own."""
        bench = cls(PlayedRun(folder), PlayedTime(), rates)
        bench.time.rules(monkeypatch)
        launcher = bench.run.launcher
        launcher.plays, launcher.tested = bench._plays, bench._tested
        launcher.meanwhile = lambda _log_path: bench._started()
        return bench

    def records(self, *purposes: Purpose) -> list[TrialRecord]:
        """Trials that were made for these; all without any."""
        return [r for r in self.run.store.records() if not purposes or r.errand.purpose in purposes]

    def keys(self, *purposes: Purpose) -> list[str]:
        """What was launched for these, in order."""
        return [record.key for record in self.records(*purposes)]

    def launches(self) -> list[tuple[str, str, int, int]]:
        """Key, purpose, round and block of each launch that was not cut off."""
        return [
            (r.key, r.errand.purpose.value, r.errand.round, r.errand.block)
            for r in self.records()
            if r.outcome is not None and r.outcome.kind != "stopped"
        ]

    def _started(self) -> None:
        self.cut()
        self.time.launch()

    def _plays(self, spec: LaunchSpec) -> LaunchResult:
        before = sum(
            record.key == spec.key and record.score is not None for record in self.run.store.records()
        )
        dice = random.Random(f"{self.seed} {spec.key} {before}")  # noqa: S311 - no secret
        luck = self.luck.get(spec.key, 1.0) if before == 0 else 1.0
        return answers(self.rates[spec.key] * luck * exp(dice.gauss(0, self.noise)))

    def _tested(self, spec: LaunchSpec, _work: Work) -> PlayedServer:
        make = self.tests.get(spec.key, lambda: PlayedServer(slot_context=2048))
        return self.time.serve(make())
