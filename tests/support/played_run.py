"""A run whose engine, rig and terminal are played, so that a test says what each launch comes to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.support.launch_bench import WORKLOAD, NeverInterrupted
from tests.support.models import splits_of
from tests.support.played_server import PlayedServer, ServerDied
from tests.support.trials import measured
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchPlan, LaunchResult, LaunchSpec
from tuner.core.memory.learned import Learned, Observation
from tuner.core.memory.predict import Predictor
from tuner.core.monitoring import RigReport
from tuner.core.outcome import Kind, Outcome
from tuner.core.rig import Device
from tuner.core.space import Choice, SearchSpace
from tuner.runs.budget import Budget
from tuner.runs.launching import LaunchRules
from tuner.runs.proving import Proof
from tuner.runs.tune import TunePlan, TuneRun
from tuner.runs.works.benchmark import Benchmark
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
    from tuner.core.quality import NextToken
    from tuner.core.trial import TrialRecord
    from tuner.core.work import RunningServer, Work
    from tuner.core.workload import Prompt, Workload
    from tuner.runs.ending import Ending
    from tuner.study import TrialStore

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
STOPPED = Outcome(Kind.STOPPED, evidence="asked to stop")


def candidate(ubatch_size: int) -> Candidate:
    """One of the five that there are."""
    return complete(BOUND, {"ubatch-size": ubatch_size})


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch was given."""

    key: str
    limit_s: float | None
    slowest_load_s: float | None
    work: str
    """`Benchmark`, `Soak` or `Endurance`."""


@dataclass
class PlayedLauncher:
    """Launches come to what they are told to; those of which nothing is told make 50 tok/s, or what they play."""

    results: dict[str, list[LaunchResult]] = field(default_factory=lambda: defaultdict(list))
    launched: list[Launched] = field(default_factory=list)
    plays: Callable[[LaunchSpec], LaunchResult] = lambda _spec: measured(50.0)
    server: Callable[[LaunchSpec, LaunchResult], RunningServer] = lambda _spec, result: AnsweringServer(
        list(result.samples)
    )
    """What benchmarks are done with."""
    tested: Callable[[LaunchSpec, Work], RunningServer] = lambda _spec, _work: PlayedServer(slot_context=2048)
    """What soaks and endurances are done with."""
    stops: Callable[[Launched], bool] = lambda _launched: False
    """Whether somebody asks to stop during that launch; it ends as it would have, but as stopped."""
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
        work: Work,
        *,
        log_path: Path,
        on_spawn: Callable[[int, float], None],
        interrupts: Interrupts,
        limit_s: float | None = None,
        slowest_load_s: float | None = None,
    ) -> LaunchResult:
        assert plan.argv[:2] == ("llama-server", spec.key)
        assert workload is WORKLOAD
        assert not interrupts.requested
        launched = Launched(spec.key, limit_s, slowest_load_s, type(work).__name__)
        self.launched.append(launched)
        self.meanwhile(log_path)
        on_spawn(PID, 1000.5)
        result = self._benchmark(spec, work) if isinstance(work, Benchmark) else self._test(spec, work)
        return replace(result, outcome=STOPPED) if self.stops(launched) else result

    def _benchmark(self, spec: LaunchSpec, work: Work) -> LaunchResult:
        told = self.results[spec.key]
        result = told.pop(0) if told else self.plays(spec)
        try:
            outcome = work.do(self.server(spec, result))
        except CutOffError:
            outcome = result.outcome
        if outcome is None or not result.outcome.policy.measured:
            outcome = result.outcome
        return replace(result, outcome=outcome, samples=tuple(work.samples))

    def _test(self, spec: LaunchSpec, work: Work) -> LaunchResult:
        try:
            outcome = work.do(self.tested(spec, work))
        except ServerDied as death:
            outcome = Outcome(Kind.CRASHED, evidence=str(death))
        return LaunchResult(outcome or Outcome())


class CutOffError(Exception):
    """The played server has no more answers."""


@dataclass
class AnsweringServer:
    """Gives the samples that it is told, in order, and no others."""

    answers: list[Sample]
    slots: int = 1
    slot_context: int | None = 2048

    def ask(self, _prompt: Prompt, _max_tokens: int) -> Sample:
        if not self.answers:
            raise CutOffError
        return self.answers.pop(0)

    def ask_together(
        self,
        prompts: Sequence[Prompt],
        max_tokens: int,
        *,
        at_once: int | None = None,  # noqa: ARG002
    ) -> list[Sample]:
        return [self.ask(prompt, max_tokens) for prompt in prompts]

    def next_token(self, _text: str) -> NextToken | None:
        return None

    def count_tokens(self, _text: str) -> int | None:
        return None

    def idle(self, _seconds: float) -> None:
        pass

    def disk_read_mib(self) -> float | None:
        return None

    def free_mib(self) -> dict[str, int]:
        return {}

    def host_mib(self) -> float | None:
        return None


@dataclass
class PlayedMonitor:
    """A rig in which nothing is seen unless it is told."""

    reports: list[RigReport] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    ended: list[tuple[float, float, int | None, Path]] = field(default_factory=list)

    def ready(self, sleep: Callable[[float], object]) -> list[str]:  # noqa: ARG002 - as the real one
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
        assert any(
            stored
            == replace(
                record,
                number=stored.number,  # another one where it came late
                result=stored.result,
                estimate_tok_s=stored.estimate_tok_s,
                worker=stored.worker,
            )
            for stored in records
        )
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
    quality_s: float | None = None
    """How long answers are looked at; None not to look."""
    shared: TrialStore | None = None
    """Where several work on the study; None for a database of its own."""
    store: TrialStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = self.shared or StudyStore.for_run(self.folder / "study.db", IDENTITY, {})

    def go(self, launches: int | None = None, **options: Any) -> Ending:  # noqa: ANN401 - those of `tuner`
        """Run to the end."""
        return self.tuner(launches, **options).run()

    def tuner(
        self,
        launches: int | None = None,
        *,
        seconds: float | None = None,
        references: tuple[LaunchSpec, ...] = (),
        starts: tuple[int, ...] = (),
        worthwhile: float = 0.0,
        confirm_blocks: int = 0,
        soak: bool = False,
        endure_s: float | None = None,
        gaps_s: tuple[float, ...] = (),
    ) -> TuneRun:
        """A run that is to be made, with `ubatch-size` of what is tried first."""
        memory = MemoryGate(
            Predictor(self.bound.splits, self.devices, learned=Learned(self.known, "e1/m1")),
            self.devices,
            reserve_mib=RESERVE_MIB,
            source="e1/m1",
        )
        plan = TunePlan(
            rules=LaunchRules(
                bound=self.bound,
                workload=WORKLOAD,
                devices=self.devices,
                reserve_mib=RESERVE_MIB,
                memory=memory,
                noted_environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            ),
            references=references,
            starts=tuple((f"start {size}", candidate(size)) for size in starts),
            candidate_spec=LaunchSpec,
            budget=Budget(seconds, launches),
            search=Search(self.bound, memory, bandwidths={}),
            worthwhile=worthwhile,
            seed=1,
            quality_s=self.quality_s,
            proof=Proof(confirm_blocks, soak, endure_s, gaps_s),
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
        )

    @property
    def launched(self) -> list[str]:
        """Keys of what was launched, in order."""
        return [one.key for one in self.launcher.launched]
