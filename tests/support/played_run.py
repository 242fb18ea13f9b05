"""A run whose engine, rig and terminal are played, so that a test says what each launch comes to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.support.launch_bench import WORKLOAD, NeverInterrupted
from tests.support.models import splits_of
from tests.support.trials import measured
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchPlan, LaunchResult, LaunchSpec
from tuner.core.memory.learned import Learned, Observation
from tuner.core.memory.predict import Predictor
from tuner.core.monitoring import RigReport
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.rig import Device
from tuner.core.space import Choice, SearchSpace
from tuner.runs.budget import Budget
from tuner.runs.tune import Ending, TunePlan, TuneRun
from tuner.search.coordinates import BoundSpace, complete
from tuner.search.memory_gate import MemoryGate
from tuner.search.strategy import Search
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tuner.core.candidate import Candidate
    from tuner.core.interrupt import Interrupts
    from tuner.core.measurement import Sample
    from tuner.core.trial import TrialRecord
    from tuner.core.workload import Workload

IDENTITY = StudyIdentity({"model": Part("m1", "a.gguf"), "engine": Part("e1", "build 11434")})
BOUND = BoundSpace(
    SearchSpace("s", "", {"split-mode": "none"}, (Choice("ubatch-size", (64, 128, 256, 512, 1024), 512),)),
    ("CUDA0",),
    splits_of(31),
    {},
)
DEFAULT, USERS = LaunchSpec(None, ENGINE_DEFAULT), LaunchSpec(None, CURRENT)
DEVICES = (Device("CUDA0", "RTX 5080", 16303, 15900),)
RESERVE_MIB = {"CUDA0": 326}
PID = 4242


def candidate(ubatch_size: int) -> Candidate:
    """One of the five that there are."""
    return complete(BOUND, {"ubatch-size": ubatch_size})


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch was given."""

    key: str
    limit_s: float | None
    slowest_load_s: float | None


@dataclass
class PlayedLauncher:
    """Launches come to what they are told to; those of which nothing is told make 50 tok/s, or what they play."""

    results: dict[str, list[LaunchResult]] = field(default_factory=lambda: defaultdict(list))
    launched: list[Launched] = field(default_factory=list)
    plays: Callable[[LaunchSpec], LaunchResult] = lambda _spec: measured(50.0)
    meanwhile: Callable[[Path], object] = lambda _log_path: None
    """What happens while a server runs; is told where its log goes."""

    def comes_to(self, key: str, *results: LaunchResult) -> None:
        """The next launches of that key."""
        self.results[key] += results

    def portable_argv(self, spec: LaunchSpec) -> list[str]:
        return ["llama-server", spec.key]

    def plan(self, spec: LaunchSpec) -> LaunchPlan:
        argv = (*self.portable_argv(spec), "--port", "1234")
        return LaunchPlan(argv, {"TOKEN": "t"}, port=1234, api_key="key", token=f"token {spec.key}")

    def run(
        self,
        spec: LaunchSpec,
        plan: LaunchPlan,
        workload: Workload,
        *,
        log_path: Path,
        on_spawn: Callable[[int, float], None],
        on_sample: Callable[[Sample], str | None],
        interrupts: Interrupts,
        limit_s: float | None = None,
        slowest_load_s: float | None = None,
    ) -> LaunchResult:
        assert plan.argv[:2] == ("llama-server", spec.key)
        assert workload is WORKLOAD
        assert not interrupts.requested
        self.launched.append(Launched(spec.key, limit_s, slowest_load_s))
        self.meanwhile(log_path)
        on_spawn(PID, 1000.5)
        told = self.results[spec.key]
        result = told.pop(0) if told else self.plays(spec)
        for n, sample in enumerate(result.samples, 1):
            if (hopeless := on_sample(sample)) is not None:
                given_up = Outcome(Kind.PRUNED, phase=Phase.BENCHMARK, evidence=hopeless)
                return replace(result, outcome=given_up, samples=result.samples[:n])
        return result


@dataclass
class PlayedMonitor:
    """A rig in which nothing is seen unless it is told."""

    reports: list[RigReport] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    ended: list[tuple[float, float, int | None, Path]] = field(default_factory=list)

    def ready(self) -> list[str]:
        self.calls.append("ready")
        return self.sentences

    def begin(self) -> None:
        self.calls.append("begin")

    def end(self, *, since_s: float, until_s: float, own_pid: int | None, raw: Path) -> RigReport:
        self.calls.append("end")
        self.ended.append((since_s, until_s, own_pid, raw))
        return self.reports.pop(0) if self.reports else RigReport()


@dataclass
class PlayedProgress:
    """Keeps what it is told."""

    notes: list[str] = field(default_factory=list)
    begun: list[tuple[int, str, str]] = field(default_factory=list)
    """Number, key and why."""
    samples: list[Sample] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def trial_begins(self, number: int, spec: LaunchSpec, why: str) -> None:
        self.begun.append((number, spec.key, why))

    def sample(self, sample: Sample) -> None:
        self.samples.append(sample)

    def trial_ended(self, record: TrialRecord, records: Sequence[TrialRecord]) -> None:
        stored = records[record.number]
        assert stored == replace(record, result=stored.result, estimate_tok_s=stored.estimate_tok_s)
        self.ended.append(record.number)


class Requested(NeverInterrupted):
    """Somebody has asked to stop."""

    requested = True


@dataclass
class PlayedRun:
    """A study on disk and what is played around it; every `go` is a tuner of its own."""

    folder: Path
    launcher: PlayedLauncher = field(default_factory=PlayedLauncher)
    monitor: PlayedMonitor = field(default_factory=PlayedMonitor)
    progress: PlayedProgress = field(default_factory=PlayedProgress)
    interrupts: Interrupts = field(default_factory=NeverInterrupted)
    published: list[int] = field(default_factory=list)
    """How many trials were recorded each time."""
    bound: BoundSpace = BOUND
    devices: tuple[Device, ...] = DEVICES
    known: tuple[Observation, ...] = ()
    """What the rig's file holds of its memory."""
    store: StudyStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = StudyStore.for_run(self.folder / "study.db", IDENTITY, {})

    def go(
        self,
        launches: int | None = None,
        *,
        seconds: float | None = None,
        references: tuple[LaunchSpec, ...] = (),
        starts: tuple[int, ...] = (),
        worthwhile: float = 0.0,
    ) -> Ending:
        """Run, with `ubatch-size` of what is tried first."""
        memory = MemoryGate(
            Predictor(self.bound.splits, self.devices, learned=Learned(self.known, "e1/m1")),
            self.devices,
            reserve_mib=RESERVE_MIB,
            source="e1/m1",
        )
        plan = TunePlan(
            bound=self.bound,
            references=references,
            starts=tuple((f"start {size}", candidate(size)) for size in starts),
            candidate_spec=LaunchSpec,
            workload=WORKLOAD,
            budget=Budget(seconds, launches),
            devices=self.devices,
            reserve_mib=RESERVE_MIB,
            memory=memory,
            search=Search(self.bound, memory, bandwidths={}),
            worthwhile=worthwhile,
            noted_environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            seed=1,
        )
        return TuneRun(
            plan,
            store=self.store,
            folder=self.folder,
            launcher=self.launcher,
            monitor=self.monitor,
            progress=self.progress,
            interrupts=self.interrupts,
            publish=lambda records: self.published.append(len(records)),
        ).run()

    @property
    def launched(self) -> list[str]:
        """Keys of what was launched, in order."""
        return [one.key for one in self.launcher.launched]
