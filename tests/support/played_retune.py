"""A retune whose engines are played rigs, one as it was and one as it is now, and a study made with the first."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from tests.bench.task import task_of
from tests.support.launch_bench import NeverInterrupted, prompt
from tests.support.played_run import AnsweringServer, PlayedMonitor, PlayedProgress
from tests.support.played_server import PlayedServer
from tests.support.trials import a_record
from tuner.core.cards import decode_bandwidth
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import ENGINE_DEFAULT, PREVIOUS, LaunchPlan, LaunchResult, LaunchSpec
from tuner.core.memory.predict import Predictor
from tuner.core.workload import PromptSet, Sampling, Thinking, Workload
from tuner.runs.launching import LaunchRules
from tuner.runs.retune import Retuned, RetuneRun
from tuner.runs.retune_plan import Before, RetunePlan
from tuner.runs.works.benchmark import Benchmark
from tuner.search.memory_gate import MemoryGate
from tuner.search.novelties import candidate_of, novelties
from tuner.search.queue import refusal
from tuner.search.strategy import RETUNED, Search
from tuner.simulate.launcher import SimulatedRig
from tuner.study import StudyStore, TpeSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.bench.task import Task
    from tuner.core.candidate import Candidate
    from tuner.core.interrupt import Interrupts
    from tuner.core.trial import TrialRecord
    from tuner.core.work import Work
    from tuner.search.canary.claim import Claim
    from tuner.simulate.played_rig import PlayedRig

DEFAULT = LaunchSpec(None, ENGINE_DEFAULT)
#: What a study confirms with.
CONFIRMED = 8


def search_of(task: Task, before: Sequence[TrialRecord] = (), *, retuned: bool = False) -> Search:
    """The tuner's own search of a task."""
    return Search(
        task.bound,
        gate_of(task),
        bandwidths={device.name: decode_bandwidth(device.description) for device in task.devices},
        before=before,
        enough=RETUNED if retuned else None,
    )


def gate_of(task: Task) -> MemoryGate:
    """Predicts the memory of a task."""
    return MemoryGate(
        Predictor(task.bound.splits, task.devices), task.devices, reserve_mib={}, source="played"
    )


@dataclass
class Study:
    """What was found with the engine of before."""

    rig: SimulatedRig
    task: Task
    records: list[TrialRecord]
    best: Candidate
    runner_up: Candidate
    scores: dict[str, tuple[float, ...]]

    @classmethod
    def made(cls, played: PlayedRig, *, launches: int = 24, seed: int = 1) -> Study:
        """Search for so many launches, and launch the two best and the reference again."""
        rig = SimulatedRig(played)
        task = task_of(rig)
        dice = random.Random(f"study {seed}")  # noqa: S311 - no secret
        search, gate = search_of(task), gate_of(task)
        records = [a_record(0, None, rig.launch(None, dice), reference=ENGINE_DEFAULT)]
        while len(records) < launches:
            found = search.propose(
                records,
                lambda one: refusal(task.bound, one, records) is not None,
                lambda one: gate.excess(one) is not None,
                lambda: TpeSampler([], seed=seed + len(records)),
            )
            assert found is not None
            records.append(a_record(len(records), found.candidate, rig.launch(found.candidate, dice)))
            gate.learn(records)
        candidates = [record for record in records if record.candidate is not None and record.may_win]
        ranked = sorted(candidates, key=lambda record: -(record.score or 0.0))
        first, second = ranked[0].candidate, ranked[1].candidate
        assert first is not None
        assert second is not None
        scores = {
            key: tuple(a_record(0, one, rig.launch(one, dice)).score or inf for _ in range(CONFIRMED))
            for key, one in ((first.key(), first), (second.key(), second), (DEFAULT.key, None))
        }
        return cls(rig, task, records, first, second, scores)


@dataclass
class BothBuilds:
    """Launches on the rig of now, and what was best before on that of before."""

    now: SimulatedRig
    then: SimulatedRig | None
    best: Candidate | None
    dice: random.Random
    launched: list[str] = field(default_factory=list)

    def portable_argv(self, spec: LaunchSpec) -> list[str]:
        return ["llama-server", spec.key]

    def plan(self, spec: LaunchSpec) -> LaunchPlan:
        return LaunchPlan(("llama-server", spec.key), {}, port=1, api_key="key", token="token")

    def run(
        self,
        spec: LaunchSpec,
        plan: LaunchPlan,  # noqa: ARG002 - as the real one
        workload: Workload,  # noqa: ARG002
        work: Work,
        *,
        log_path: Path,  # noqa: ARG002
        on_spawn: Callable[[int, float], None],
        interrupts: Interrupts,  # noqa: ARG002
        limit_s: float | None = None,  # noqa: ARG002
        slowest_load_s: float | None = None,  # noqa: ARG002
    ) -> LaunchResult:
        on_spawn(4242, 1000.5)
        self.launched.append(spec.key)
        rig, candidate = self.now, spec.candidate
        if spec.reference == PREVIOUS:
            assert self.then is not None
            rig, candidate = self.then, self.best
        result = rig.launch(candidate, self.dice)
        if not isinstance(work, Benchmark):
            outcome = work.do(PlayedServer(slot_context=2048))
            return LaunchResult(outcome or result.outcome)
        if not result.outcome.policy.measured:
            return result
        outcome = work.do(AnsweringServer(list(result.samples)))
        return replace(result, outcome=outcome or result.outcome, samples=tuple(work.samples))


@dataclass
class PlayedRetune:
    """A retune in a folder."""

    folder: Path
    study: Study
    now: PlayedRig
    keeps_old: bool = True
    """Whether what was is still there to be launched."""
    renews: bool = False
    new: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Options that are new."""
    seed: int = 1
    progress: PlayedProgress = field(default_factory=PlayedProgress)
    launcher: BothBuilds = field(init=False)
    store: StudyStore = field(init=False)

    def __post_init__(self) -> None:
        rig = SimulatedRig(self.now)
        dice = random.Random(f"retune {self.seed}")  # noqa: S311 - no secret
        self.launcher = BothBuilds(rig, self.study.rig if self.keeps_old else None, self.study.best, dice)
        self.store = StudyStore.for_run(
            self.folder / "study.db", StudyIdentity({"engine": Part("e2", "the next")}), {}
        )

    def plan(self, launches: int = 12) -> RetunePlan:
        """As it would be made for a user."""
        task, study = task_of(self.launcher.now), self.study
        found = []
        search, gate = search_of(task, study.records[1:]), gate_of(task)
        for novelty in novelties(task.bound, self.new, study.records):
            candidate = candidate_of(
                novelty,
                task.bound,
                study.best,
                lambda refuses: _proposed(task, search, gate, refuses),
            )
            if candidate is not None:
                found.append((novelty.why, candidate))
        names = [
            f"{name}-{n + 1}" for name in self.now.workload.classes for n in range(self.now.workload.requests)
        ]
        workload = Workload(
            PromptSet("played", prompt("warm-up"), tuple(prompt(name) for name in names), "d"),
            self.now.workload.max_tokens,
            Sampling(),
            Thinking.AUTO,
            seed=1,
        )
        beside = [(why, LaunchSpec(one)) for why, one in found]
        beside.append(("the runner-up", LaunchSpec(study.runner_up)))
        return RetunePlan(
            rules=LaunchRules(
                bound=task.bound,
                workload=workload,
                devices=task.devices,
                reserve_mib={},
                memory=gate,
                noted_environment={},
            ),
            best=LaunchSpec(study.best),
            previous=LaunchSpec(None, PREVIOUS) if self.keeps_old else None,
            references=(DEFAULT,),
            beside=tuple(beside),
            starts=tuple(found),
            candidate_spec=LaunchSpec,
            search=lambda before: search_of(task, before, retuned=True),
            before=Before(MappingProxyType(study.scores), tuple(study.records)),
            renews=self.renews,
            launches=launches,
            seconds=None,
            blocks=3,
            worthwhile=0.01,
            seed=1,
            quality_s=None,
        )

    def go(self, launches: int = 12) -> Retuned:
        """To its end."""
        return self._run(self.plan(launches)).run()

    def measure(self, claim: Claim) -> Retuned:
        """The best and the reference alone, until it is known whether that holds."""
        plan = self.plan(17)
        alone = replace(plan, previous=None, beside=(), starts=(), blocks=8, claim=claim)
        return self._run(alone).measure()

    def _run(self, plan: RetunePlan) -> RetuneRun:
        return RetuneRun(
            plan,
            store=self.store,
            folder=self.folder,
            launcher=self.launcher,
            monitor=PlayedMonitor(),
            progress=self.progress,
            interrupts=NeverInterrupted(),
        )


def _proposed(
    task: Task, search: Search, gate: MemoryGate, refuses: Callable[[Candidate], bool]
) -> Candidate | None:
    found = search.propose(
        (),
        lambda one: refuses(one) or refusal(task.bound, one, ()) is not None,
        lambda one: gate.excess(one) is not None,
        lambda: TpeSampler([], seed=1),
    )
    return None if found is None else found.candidate
