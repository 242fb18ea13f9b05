"""The main job: propose, launch, record, until the budget is spent."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.interrupt import Interrupted
from tuner.core.launch import LaunchPlan, LaunchResult, LaunchSpec
from tuner.core.memory.words import size
from tuner.core.monitoring import study_clocks_mhz
from tuner.core.outcome import Kind, Outcome
from tuner.core.surroundings import Surroundings, judged
from tuner.core.trial import TrialRecord, best_of
from tuner.runs.giving_up import give_up_if_hopeless
from tuner.runs.room import check_room
from tuner.runs.sleep_watch import SleepWatch
from tuner.runs.trial_folder import TrialFolder
from tuner.search.coordinates import BoundSpace, coordinates
from tuner.search.pruning import why_hopeless
from tuner.search.queue import again, pending, refusal, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tuner.core.candidate import Candidate
    from tuner.core.interrupt import Interrupts
    from tuner.core.measurement import Sample
    from tuner.core.memory.learned import Observation
    from tuner.core.rig import Device
    from tuner.core.workload import Workload
    from tuner.runs.budget import Budget
    from tuner.runs.protocols import Launcher, Progress, RigMonitor
    from tuner.search.memory_gate import MemoryGate
    from tuner.search.strategy import Search
    from tuner.study import StudyStore


@dataclass(frozen=True, slots=True)
class TunePlan:
    """What is to be tuned, decided before anything starts."""

    bound: BoundSpace
    references: tuple[LaunchSpec, ...]
    """Measured first."""
    starts: tuple[tuple[str, Candidate], ...]
    """Tried next, with a word on why."""
    candidate_spec: Callable[[Candidate], LaunchSpec]
    """How a candidate is launched."""
    workload: Workload
    budget: Budget
    devices: tuple[Device, ...]
    reserve_mib: Mapping[str, int]
    memory: MemoryGate
    """Keeps what cannot fit from being launched."""
    search: Search
    """Proposes once references and starts are through."""
    worthwhile: float
    """The improvement that is worth going on for, as a part of the best; 0 to spend the whole budget."""
    noted_environment: Mapping[str, str]
    """The user's own variables that belong to every command."""
    seed: int


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ended."""

    why: str
    interrupted: bool = False


class TuneRun:
    """One run over a study, new or resumed.

    Everything that a trial has taught is on disk before the next one begins.
    """

    def __init__(
        self,
        plan: TunePlan,
        *,
        store: StudyStore,
        folder: Path,
        launcher: Launcher,
        monitor: RigMonitor,
        progress: Progress,
        interrupts: Interrupts,
        publish: Callable[[Sequence[TrialRecord]], None],
        remember: Callable[[Sequence[Observation]], None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._store = store
        self._folder = folder
        self._launcher = launcher
        self._monitor = monitor
        self._progress = progress
        self._interrupts = interrupts
        self._publish = publish
        self._remember = remember
        self._turned_away = {row.key: row for row in store.not_launched()}
        self._started = time.monotonic()

    def run(self) -> Ending:
        """Go on until the budget is spent, the space is used up, or somebody asks to stop.

        Raises:
            EngineError: The engine cannot be used, whatever the candidate.
            RigError: The devices fail again and again.
        """
        self._settle()
        self._plan.memory.begin_with(self._store.memory_before(self._plan.memory.known_before))
        self._note_estimates()  # a killed tuner may not have come to it
        records = self._store.records()
        used_before_s = sum(record.wall_s for record in records)
        self._publish(records)
        while True:
            used_s = used_before_s + time.monotonic() - self._started
            if self._interrupts.requested:
                return Ending("asked to stop", interrupted=True)
            if (why_over := self._plan.budget.why_over(records, used_s)) is not None:
                return Ending(why_over)
            began = time.monotonic()
            self._plan.memory.learn(records)
            known = len(self._turned_away)
            chosen = self._next(records)
            if len(self._turned_away) > known:
                self._store.note_not_launched(list(self._turned_away.values()))
            if isinstance(chosen, Ending):
                return chosen
            spec, why = chosen
            if not self._plan.budget.fits(spec, records, used_s):
                return Ending("what is left of its time is too short for another launch")
            check_room(self._folder)
            try:
                with self._interrupts.allowed():  # cards can take minutes to cool down
                    notes = self._monitor.ready()
            except Interrupted:
                return Ending("asked to stop", interrupted=True)
            for note in notes:
                self._progress.note(note)
            limit_s = self._plan.budget.left_s(used_before_s + time.monotonic() - self._started)
            record = self._trial(spec, why, began=began, limit_s=limit_s, records=records)
            self._note_estimates()
            records = self._store.records()
            self._publish(records)
            self._remember(self._plan.memory.learned_from([record]))
            self._progress.trial_ended(record, records)
            give_up_if_hopeless(records, self._folder)

    def _settle(self) -> None:
        """Record what became of the trial that a killed tuner was in."""
        for record in self._store.records():
            if record.result is not None:
                continue
            folder = TrialFolder.of(self._folder, record.number)
            found = folder.result()
            if found is None:
                stopped = LaunchResult(
                    Outcome(Kind.STOPPED, evidence="the tuner was killed during this trial")
                )
                self._store.finish(replace(record, result=stopped))
                self._progress.note(f"trial {record.number} was cut off when the tuner was killed")
            else:
                result, wall_s = found
                self._store.finish(replace(record, result=result, wall_s=wall_s))

    def _note_estimates(self) -> None:
        self._store.note_estimates(self._plan.search.estimates(self._store.records()))

    def _next(self, records: Sequence[TrialRecord]) -> tuple[LaunchSpec, str] | Ending:
        plan = self._plan
        reference = pending(plan.references, records)
        if reference is not None:
            return reference, "reference"
        repeated = again(records)
        if repeated is not None:
            return plan.candidate_spec(repeated), "again"
        for why, candidate in plan.starts:
            if not wanted(candidate.key(), records):
                continue
            known = len(self._turned_away)
            if not self._refuses(candidate, records):
                return plan.candidate_spec(candidate), why
            if len(self._turned_away) > known:
                over = list(self._turned_away.values())[-1]
                self._progress.note(
                    f"not launched: {candidate.summary()}: it exceeds {over.device} by {size(over.over_mib)}"
                )
        why_done = plan.search.why_done(
            records, lambda one: refusal(plan.bound, one, records) is not None, plan.worthwhile
        )
        if why_done is not None:
            return Ending(why_done)
        found = plan.search.propose(
            records,
            lambda one: refusal(plan.bound, one, records) is not None,
            self._is_too_large,
            lambda: self._store.sampler(plan.seed),
        )
        if found is not None:
            return plan.candidate_spec(found.candidate), found.why
        every = "everything in the search space"
        return Ending(f"{every} that can fit was tried" if self._turned_away else f"{every} was tried")

    def _refuses(self, candidate: Candidate, records: Sequence[TrialRecord]) -> bool:
        """Whether a candidate is not launched: it was already, it breaks a rule, or it cannot fit."""
        return refusal(self._plan.bound, candidate, records) is not None or self._is_too_large(candidate)

    def _is_too_large(self, candidate: Candidate) -> bool:
        """Whether it cannot fit; then it is counted."""
        turned_away = self._plan.memory.turned_away(candidate)
        if turned_away is not None:
            self._turned_away.setdefault(turned_away.key, turned_away)
        return turned_away is not None

    def _trial(
        self,
        spec: LaunchSpec,
        why: str,
        *,
        began: float,
        limit_s: float | None,
        records: Sequence[TrialRecord],
    ) -> TrialRecord:
        plan = self._plan
        launch = self._launcher.plan(spec)
        argv = tuple(self._launcher.portable_argv(spec))
        environment = {**plan.noted_environment, **spec.own_environment}
        place = [] if spec.candidate is None else coordinates(plan.bound, spec.candidate)
        number = self._store.begin(spec, place, argv=argv, environment=environment)
        folder = TrialFolder.of(self._folder, number)
        prediction = None if spec.candidate is None else plan.memory.predict(spec.candidate)
        folder.journal(spec, launch, prediction)
        self._progress.trial_begins(number, spec, why)
        result = self._launch(spec, launch, folder, limit_s=limit_s, records=records)
        record = TrialRecord(
            number=number,
            candidate=spec.candidate,
            reference=spec.reference,
            argv=argv,
            environment=environment,
            result=result,
            wall_s=time.monotonic() - began,
        )
        folder.record_result(result, record.wall_s)
        self._store.finish(record)
        return record

    def _watcher(self, spec: LaunchSpec, records: Sequence[TrialRecord]) -> Callable[[Sample], str | None]:
        """Is told each answer of a launch, and says when the rest of them is no use."""
        best = best_of([record for record in records if record.candidate is not None])
        seen: list[Sample] = []

        def watch(sample: Sample) -> str | None:
            seen.append(sample)
            self._progress.sample(sample)
            if spec.candidate is None or best is None or best.candidate is None or best.result is None:
                return None
            return why_hopeless(
                seen,
                best.result.samples,
                n_prompts=len(self._plan.workload.prompt_set.prompts),
                depths=(spec.candidate.draft_depth, best.candidate.draft_depth),
            )

        return watch

    def _launch(
        self,
        spec: LaunchSpec,
        launch: LaunchPlan,
        folder: TrialFolder,
        *,
        limit_s: float | None,
        records: Sequence[TrialRecord],
    ) -> LaunchResult:
        """Launch, watch the rig meanwhile, and judge what came of it in that light."""
        plan = self._plan
        pids: list[int] = []

        def spawned(pid: int, started_at: float) -> None:
            pids.append(pid)
            folder.record_process(pid, started_at)

        sleep = SleepWatch()
        self._monitor.begin()
        result = self._launcher.run(
            spec,
            launch,
            plan.workload,
            log_path=folder.log_path,
            on_spawn=spawned,
            on_sample=self._watcher(spec, records),
            interrupts=self._interrupts,
            limit_s=limit_s,
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
            devices=plan.devices,
            reserve_mib=plan.reserve_mib,
            disturbed_before=disturbed_before(spec.key, records),
        )
        return replace(result, telemetry=report.summaries, outcome=outcome)


def disturbed_before(key: str, records: Sequence[TrialRecord]) -> int:
    """How often this candidate or reference was measured and disturbed."""
    outcomes = [record.outcome for record in records if record.key == key]
    return sum(outcome is not None and outcome.kind is Kind.DISTURBED for outcome in outcomes)


def _slowest_load_s(records: Sequence[TrialRecord]) -> float | None:
    """The slowest load of those that were measured; None before the first."""
    loads = [
        record.result.load_s for record in records if record.result is not None and record.score is not None
    ]
    return max(loads, default=None)
