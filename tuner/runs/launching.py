"""One trial from the decision to launch until it is recorded: journal, launch, watch the rig, judge."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.interrupt import Interrupted
from tuner.core.monitoring import study_clocks_mhz
from tuner.core.outcome import Kind
from tuner.core.surroundings import Surroundings, judged
from tuner.core.trial import SEARCHING, TrialRecord
from tuner.runs.discretion import Discretion
from tuner.runs.room import check_room
from tuner.runs.sleep_watch import SleepWatch
from tuner.runs.trial_folder import TrialFolder
from tuner.search.coordinates import BoundSpace, coordinates
from tuner.study import always

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tuner.core.interrupt import Interrupts
    from tuner.core.launch import LaunchPlan, LaunchResult, LaunchSpec
    from tuner.core.rig import Device
    from tuner.core.trial import Errand
    from tuner.core.work import Work
    from tuner.core.workload import Workload
    from tuner.runs.protocols import Launcher, Progress, RigMonitor
    from tuner.search.memory_gate import MemoryGate
    from tuner.study import TrialStore


@dataclass(frozen=True, slots=True)
class LaunchRules:
    """What holds for every launch of a study."""

    bound: BoundSpace
    workload: Workload
    devices: tuple[Device, ...]
    reserve_mib: Mapping[str, int]
    memory: MemoryGate
    noted_environment: Mapping[str, str]
    """The user's own variables that belong to every command."""
    keep_text: bool = False
    """Whether answers to the user's own prompts are kept in the trials' folders."""


@dataclass(frozen=True, slots=True)
class Order:
    """A launch that is wanted."""

    spec: LaunchSpec
    why: str
    work: Work
    errand: Errand = SEARCHING
    limit_s: float | None = None
    """Seconds after which it is stopped wherever it is."""
    still_wanted: Callable[[Sequence[TrialRecord]], bool] = always
    """Whether it is, after all that others have begun before it."""


class Launching:
    """Makes trials; everything that one has taught is on disk before it is given back.

    Args:
        rules: What holds for every launch.
        store: Where trials are recorded.
        folder: The study's.
        launcher: Starts servers.
        monitor: Watches the devices.
        progress: Is told of each trial.
        interrupts: Requests to stop.
    """

    def __init__(
        self,
        rules: LaunchRules,
        *,
        store: TrialStore,
        folder: Path,
        launcher: Launcher,
        monitor: RigMonitor,
        progress: Progress,
        interrupts: Interrupts,
    ) -> None:
        self._rules = rules
        self._discretion = Discretion(rules.workload, keep_text=rules.keep_text)
        self._store = store
        self._folder = folder
        self._launcher = launcher
        self._monitor = monitor
        self._progress = progress
        self._interrupts = interrupts

    def make(
        self,
        order: Order,
        records: Sequence[TrialRecord],
        *,
        began: float,
        prepared: Callable[[TrialFolder], None] = lambda _folder: None,
        finished: Callable[[LaunchResult, TrialFolder], LaunchResult] = lambda result, _folder: result,
    ) -> TrialRecord | None:
        """Launch once the rig is ready, and record what came of it; None where somebody asked to stop before.

        Args:
            order: What is wanted.
            records: All trials so far.
            began: When it was begun to decide on it, by the monotonic clock.
            prepared: Is told where the trial is kept, before it is launched.
            finished: Has the last word on the result, before it is recorded.

        Raises:
            Taken: Another worker of the study was first; nothing was launched.
            TunerError: There is no room on the disk, or the engine cannot be started at all.
        """
        check_room(self._folder)
        try:
            notes = self._monitor.ready(self._interrupts.sleep)  # cards can take minutes to cool down
        except Interrupted:
            return None
        for note in notes:
            self._progress.note(note)
        spec, rules = order.spec, self._rules
        launch = self._launcher.plan(spec)
        argv = tuple(self._launcher.portable_argv(spec))
        environment = {**rules.noted_environment, **spec.own_environment}
        place = [] if spec.candidate is None else coordinates(rules.bound, spec.candidate)
        number = self._store.begin(
            spec,
            place,
            argv=argv,
            environment=environment,
            errand=order.errand,
            still_wanted=order.still_wanted,
        )
        folder = TrialFolder.of(self._folder, number)
        prediction = None if spec.candidate is None else rules.memory.predict(spec.candidate)
        folder.journal(spec, launch, prediction)
        prepared(folder)
        self._progress.trial_begins(number, spec, order.why)
        result = self._discretion.result(finished(self._launch(order, launch, folder, records), folder))
        self._discretion.log(folder)
        record = TrialRecord(
            number=number,
            candidate=spec.candidate,
            reference=spec.reference,
            argv=argv,
            environment=environment,
            result=result,
            wall_s=time.monotonic() - began,
            errand=order.errand,
            goal=rules.workload.goal,
        )
        folder.record_result(result, record.wall_s)
        self._store.finish(record, folder.kept())
        return record

    def _launch(
        self, order: Order, launch: LaunchPlan, folder: TrialFolder, records: Sequence[TrialRecord]
    ) -> LaunchResult:
        """Launch, watch the rig meanwhile, and judge what came of it in that light."""
        rules, spec = self._rules, order.spec
        pids: list[int] = []

        def spawned(pid: int, started_at: float) -> None:
            pids.append(pid)
            folder.record_process(pid, started_at)

        sleep = SleepWatch()
        self._monitor.begin()
        result = self._launcher.run(
            spec,
            launch,
            rules.workload,
            order.work,
            log_path=folder.log_path,
            on_spawn=spawned,
            interrupts=self._interrupts,
            limit_s=order.limit_s,
            slowest_load_s=_slowest_load_s(records),
        )
        report = self._monitor.end(
            since_s=result.load_s + result.warmup_s,
            until_s=result.load_s + result.requests_s,
            own_pid=pids[0] if pids else None,
            raw=folder.path / "telemetry.jsonl",
        )
        outcome = judged(
            result,
            Surroundings(report, slept_s=sleep.slept_s(), clocks_mhz=study_clocks_mhz(records)),
            spec,
            devices=rules.devices,
            reserve_mib=rules.reserve_mib,
            disturbed_before=disturbed_before(spec.key, records, order.errand),
        )
        return replace(result, telemetry=report.summaries, outcome=outcome)


def last_wall_s(key: str, records: Sequence[TrialRecord]) -> float | None:
    """What the last launch of a candidate or reference took that was measured; None where none was."""
    return next((r.wall_s for r in reversed(records) if r.key == key and r.score is not None), None)


def disturbed_before(key: str, records: Sequence[TrialRecord], errand: Errand = SEARCHING) -> int:
    """How often this candidate or reference was disturbed when it was launched for that."""
    outcomes = [r.outcome for r in records if r.key == key and r.errand == errand]
    return sum(outcome is not None and outcome.kind is Kind.DISTURBED for outcome in outcomes)


def _slowest_load_s(records: Sequence[TrialRecord]) -> float | None:
    """The slowest load of those that were measured; None before the first."""
    loads = [
        record.result.load_s for record in records if record.result is not None and record.score is not None
    ]
    return max(loads, default=None)
