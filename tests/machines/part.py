"""A worker on a played pair, as a process of its own: all of a worker but the engine, whose launches take time.

`python -m tests.machines.part ORDER`, where ORDER is JSON. What a launch comes to depends on the candidate alone, so
that every worker's rig is the same.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.launch_bench import WORKLOAD
from tests.support.played_rigs import simulated
from tests.support.played_run import DEFAULT, PlayedLauncher, PlayedMonitor
from tests.support.played_search import BANDWIDTHS, RIG, TASK
from tuner.core.identity import Part, StudyIdentity
from tuner.core.launch import LaunchSpec
from tuner.core.memory.predict import Predictor
from tuner.runs.budget import Budget
from tuner.runs.interrupt import SignalInterrupts
from tuner.runs.launching import LaunchRules
from tuner.runs.proving import Proof
from tuner.runs.trial_folder import write_json
from tuner.runs.tune import TunePlan, TuneRun
from tuner.runs.worker import WorkerRun
from tuner.search.coordinates import coordinates
from tuner.search.memory_gate import MemoryGate
from tuner.search.queue import propose
from tuner.search.strategy import Proposal, Search
from tuner.simulate.launcher import SimulatedRig
from tuner.study import Making, SharedStore, StudyStore, TrialStore, Worker
from tuner.study.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.cards import Bandwidth
    from tuner.core.interrupt import Interrupts
    from tuner.core.launch import LaunchResult
    from tuner.core.measurement import Sample
    from tuner.core.trial import TrialRecord
    from tuner.search.queue import Sampler

IDENTITY = StudyIdentity({"model": Part("m1", "played"), "devices": Part("d1", RIG)})


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to do."""

    url: str
    """The storage; empty for a study of this process alone in the folder."""
    folder: str
    """Its own."""
    launches: int
    launch_s: float
    """What a launch takes."""
    lease_s: float = 3.0
    blocks: int = 2
    """Launches a side that confirm the winner."""
    model: bool = True
    """Whether the speed model proposes; else the sampler alone, which takes a tenth of the time."""
    name: str = "played"

    def argv(self) -> list[str]:
        """The command that is that worker."""
        return [sys.executable, "-m", "tests.machines.part", json.dumps(asdict(self))]


class SamplerSearch(Search):
    """Proposes what Optuna's sampler draws."""

    def __init__(self, memory: MemoryGate) -> None:
        super().__init__(TASK.bound, memory, bandwidths=BANDWIDTHS)

    def propose(
        self,
        records: Sequence[TrialRecord],  # noqa: ARG002 - as the real one
        refuses: Callable[[Candidate], bool],
        too_large: Callable[[Candidate], bool],
        sampler: Callable[[], Sampler],
    ) -> Proposal | None:
        drawn = propose(sampler(), TASK.bound, lambda one: refuses(one) or too_large(one))
        return None if drawn is None else Proposal(drawn, "the sampler's proposal")

    def estimates(self, records: Sequence[TrialRecord]) -> dict[int, float]:  # noqa: ARG002 - as above
        return {}

    def device_rates(self, records: Sequence[TrialRecord]) -> dict[str, Bandwidth]:  # noqa: ARG002 - as above
        return {}


class LineProgress:
    """Says what happens, a line each, with the time."""

    def note(self, text: str) -> None:
        self._say(text)

    def trial_begins(self, number: int, spec: LaunchSpec, why: str) -> None:
        self._say(f"[{number}] {spec.label} ({why})")

    def sample(self, sample: Sample) -> None:
        pass

    def trial_ended(self, record: TrialRecord, records: Sequence[TrialRecord]) -> None:
        score = "-" if record.score is None else f"{record.score:.2f}"
        self._say(f"[{record.number}] ended: {score} tok/s, {len(records)} trials")

    def _say(self, text: str) -> None:
        print(f"{time.time():.3f} {text}", flush=True)


def main() -> None:
    """Work until the study is complete."""
    order = Order(**json.loads(sys.argv[1]))
    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with SignalInterrupts(lambda: None) as interrupts:
        run = _tune_run if not order.url else _worker_run
        ending = run(order, folder, interrupts)
    print(f"{time.time():.3f} over: {ending}", flush=True)


def _tune_run(order: Order, folder: Path, interrupts: Interrupts) -> str:
    store = StudyStore.for_run(folder / "study.db", IDENTITY, {})
    return _run(_plan(order), store, folder, interrupts, order).run().why


def _worker_run(order: Order, folder: Path, interrupts: Interrupts) -> str:
    worker = _worker(folder)
    plan = _plan(order)

    def wait(_why: str, seconds: float) -> bool:
        interrupts.sleep(min(seconds, 0.2))
        return True  # whoever has started this ends it

    store = SharedStore.for_run(
        Location.parse(order.url, "order"),
        order.name,
        Making(IDENTITY, {}, order.lease_s),
        worker=worker,
        place_of=lambda candidate: coordinates(TASK.bound, candidate),
        wait=wait,
    )
    progress = LineProgress()
    run = _run(plan, store, folder, interrupts, order)
    part = WorkerRun(
        run, plan, store=store, worker=worker, progress=progress, interrupts=interrupts, poll_s=0.2
    )
    return part.run().why


def _worker(folder: Path) -> Worker:
    """The same after a restart in the same folder."""
    path = folder / "worker.json"
    if path.exists():
        return Worker(**json.loads(path.read_text(encoding="utf-8")))
    worker = Worker(os.urandom(6).hex(), folder.name)
    write_json(path, worker.to_json())
    return worker


def _plan(order: Order) -> TunePlan:
    memory = MemoryGate(
        Predictor(TASK.bound.splits, TASK.devices), TASK.devices, reserve_mib={}, source="played"
    )
    return TunePlan(
        rules=LaunchRules(
            bound=TASK.bound,
            workload=WORKLOAD,
            devices=TASK.devices,
            reserve_mib={},
            memory=memory,
            noted_environment={},
        ),
        references=(DEFAULT,),
        starts=(),
        candidate_spec=LaunchSpec,
        budget=Budget(None, order.launches),
        search=Search(TASK.bound, memory, bandwidths=BANDWIDTHS) if order.model else SamplerSearch(memory),
        worthwhile=0.0,
        seed=1,
        proof=Proof(confirm_blocks=order.blocks, soak=False),
    )


def _run(plan: TunePlan, store: TrialStore, folder: Path, interrupts: Interrupts, order: Order) -> TuneRun:
    rig = SimulatedRig(simulated(RIG).rig)
    rig.launches = 1  # the first launch on a rig is unlike the others

    def plays(spec: LaunchSpec) -> LaunchResult:
        return rig.launch(spec.candidate, random.Random(spec.key))  # noqa: S311 - no secret

    launcher = PlayedLauncher(plays=plays, meanwhile=lambda _log_path: time.sleep(order.launch_s))
    return TuneRun(
        plan,
        store=store,
        folder=folder,
        launcher=launcher,
        monitor=PlayedMonitor(),
        progress=LineProgress(),
        interrupts=interrupts,
        publish=lambda _records: None,
    )


if __name__ == "__main__":
    main()
