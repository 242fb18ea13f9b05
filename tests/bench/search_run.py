"""One search on one played rig, and what many of them come to."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, Any

import optuna  # noqa: TID251 - its log is silenced

from tests.bench.strategies import STRATEGIES
from tests.bench.task import Task, task_of
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.outcome import Kind
from tuner.core.trial import TrialRecord
from tuner.simulate.launcher import SimulatedRig
from tuner.simulate.rig_file import read_rig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tuner.core.candidate import Candidate

#: Launches after which the fraction is stated.
MARKS = (10, 20, 40, 80)
GOAL = 0.98
#: What never reaching the goal counts as.
NEVER = 81
EARLY = 20


@dataclass(frozen=True, slots=True)
class Job:
    """One search."""

    rig: Path
    factor: float
    """Of reductions, overhead and noise; no strategy is told."""
    strategy: str
    seed: int
    launches: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one search came to."""

    job: Job
    fractions: tuple[float, ...]
    """After each launch: the true rate of what would be exported then, over the true best."""
    kinds: tuple[Kind, ...]
    """How each launch ended."""

    @property
    def launches_to_goal(self) -> int:
        """Launches until what would be exported was good enough."""
        return next((n for n, part in enumerate(self.fractions, 1) if part >= GOAL), NEVER)

    def fraction_after(self, launches: int) -> float | None:
        """The fraction then; None where fewer were allowed. A search that has ended stays where it is."""
        if launches > self.job.launches:
            return None
        return self.fractions[min(launches, len(self.fractions)) - 1]


@lru_cache(maxsize=64)
def played(path: Path, factor: float) -> tuple[SimulatedRig, Task, float]:
    """A rig, the task that it poses, and the true best rate of it."""
    rig = SimulatedRig(read_rig(path).scaled(factor))
    task = task_of(rig)
    return rig, task, rig.best(task.bound)[1]


def search(job: Job) -> Run:
    """Search: the engine's default first, then what the strategy proposes; every launch counts."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    known, task, best_tok_s = played(job.rig, job.factor)
    rig = SimulatedRig(known.rig)
    rng = random.Random(f"{job.rig.stem} {job.factor} {job.seed}")  # noqa: S311 - no secret
    strategy = STRATEGIES[job.strategy](task, job.seed)
    records: list[TrialRecord] = []
    fractions: list[float] = []
    candidate: Candidate | None = None
    while len(records) < job.launches:
        if records:
            candidate = strategy.propose(tuple(records))
            if candidate is None:
                break
        result = rig.launch(candidate, rng)
        records.append(
            TrialRecord(
                number=len(records),
                candidate=candidate,
                reference=None if candidate is not None else ENGINE_DEFAULT,
                argv=("llama-server",),
                environment={},
                result=result,
                wall_s=result.load_s + result.requests_s + result.shutdown_s,
            )
        )
        fractions.append(_worth(known, strategy.exported(records)) / best_tok_s)
    kinds = tuple(record.outcome.kind for record in records if record.outcome is not None)
    return Run(job, tuple(fractions), kinds)


def _worth(rig: SimulatedRig, best: TrialRecord | None) -> float:
    if best is None:
        return 0.0
    options = rig.engine_default() if best.candidate is None else best.candidate.options
    return rig.true_rate(options) or 0.0


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Medians of one strategy on one rig, as the JSON has them."""
    to_goal = median(run.launches_to_goal for run in runs)
    early = [sum(kind is Kind.OUT_OF_MEMORY for kind in run.kinds[:EARLY]) for run in runs]
    fractions = {
        str(mark): None if runs[0].fraction_after(mark) is None else _rounded(runs, mark) for mark in MARKS
    }
    return {
        "name": runs[0].job.strategy,
        "fraction": fractions,
        "launches_to_98": None if to_goal >= NEVER else to_goal,
        "oom_in_first_20": median(early),
    }


def _rounded(runs: Sequence[Run], mark: int) -> float:
    return round(median(run.fraction_after(mark) or 0.0 for run in runs), 4)
