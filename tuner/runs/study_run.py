"""What every run over a study does, whatever it is for: settle what was cut off, launch, record, tell."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.launch import LaunchResult
from tuner.core.outcome import Kind, Outcome
from tuner.runs.desk import Desk
from tuner.runs.discretion import Discretion
from tuner.runs.examining import Examining
from tuner.runs.giving_up import give_up_if_hopeless
from tuner.runs.launching import Launching
from tuner.runs.trial_folder import TrialFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tuner.core.interrupt import Interrupts
    from tuner.core.memory.learned import Observation
    from tuner.core.trial import TrialRecord
    from tuner.runs.launching import LaunchRules
    from tuner.runs.protocols import Launcher, Progress, RigMonitor
    from tuner.runs.quality_gate import QualityGate
    from tuner.study import TrialStore


class StudyRun:
    """One run over a study, new or resumed.

    Everything that a trial has taught is on disk before the next one begins.

    Args:
        rules: What holds for every launch.
        quality: Compares answers.
        store: Where trials are recorded.
        folder: The study's.
        launcher: Starts servers.
        monitor: Watches the devices.
        progress: Is told of each trial.
        interrupts: Requests to stop.
        publish: Is told all trials, whenever what the study says may have changed.
        remember: Is told what each trial has taught of the rig's memory.

    Attributes:
        desk: What every part of the run works with.
    """

    def __init__(
        self,
        rules: LaunchRules,
        quality: QualityGate,
        *,
        store: TrialStore,
        folder: Path,
        launcher: Launcher,
        monitor: RigMonitor,
        progress: Progress,
        interrupts: Interrupts,
        publish: Callable[[Sequence[TrialRecord]], None],
        remember: Callable[[Sequence[Observation]], None] = lambda _: None,
    ) -> None:
        self._rules = rules
        self._store = store
        self._folder = folder
        self._progress = progress
        self._publish = publish
        self._remember = remember
        self._used_before_s = 0.0
        self._started = time.monotonic()
        self.desk = Desk(
            rules=rules,
            launching=Launching(
                rules,
                store=store,
                folder=folder,
                launcher=launcher,
                monitor=monitor,
                progress=progress,
                interrupts=interrupts,
            ),
            store=store,
            examining=Examining(quality, rules.workload, store),
            progress=progress,
            interrupts=interrupts,
            recorded=self._recorded,
            changed=lambda: self._publish(self._store.records()),
        )

    def begin(self) -> None:
        """Take up where the study stands."""
        self._settle()
        memory = self._rules.memory
        memory.begin_with(self._store.memory_before(memory.known_before))
        self._used_before_s = self._store.used_s()
        self.desk.examining.begin_with(self._store.records())

    def used_s(self) -> float:
        """Seconds that the study has used so far, by all its runs."""
        return self._used_before_s + time.monotonic() - self._started

    def _recorded(self, record: TrialRecord) -> None:
        """What follows from each trial, whatever it was made for."""
        records = self._store.records()
        self._publish(records)
        self._remember(self._rules.memory.learned_from([record]))
        self._progress.trial_ended(record, records)
        made = next(one for one in records if one.number == record.number)
        own = [one for one in records if one.worker == made.worker]  # other rigs say nothing of this one
        give_up_if_hopeless(own, self._folder)

    def _settle(self) -> None:
        """Record what became of the trial that a killed tuner was in, or whose end could not be told to others."""
        discretion = Discretion(self._rules.workload, keep_text=self._rules.keep_text)
        for record in self._store.unsettled():
            folder = TrialFolder.of(self._folder, record.number)
            discretion.log(folder)
            found = folder.result()
            if found is None and record.result is not None:
                continue  # others have given it up, and there is nothing to add
            if found is None:
                soaked = folder.soaked()
                stopped = LaunchResult(
                    Outcome(Kind.STOPPED, evidence="the tuner was killed during this trial"), soak=soaked
                )
                wall_s = 0.0 if soaked is None else soaked.seconds  # hours, maybe, of what the study may use
                self._store.finish(replace(record, result=stopped, wall_s=wall_s), folder.kept())
                self._progress.note(f"trial {record.number} was cut off when the tuner was killed")
            else:
                result, wall_s = found
                self._store.finish(replace(record, result=result, wall_s=wall_s), folder.kept())
