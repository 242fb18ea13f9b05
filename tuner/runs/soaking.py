"""The winner goes through what it is for before it is exported; who fails makes way for the next."""

from __future__ import annotations

import time
from dataclasses import replace
from math import log
from statistics import stdev
from typing import TYPE_CHECKING

from tuner.core.measurement import rates
from tuner.core.trial import Errand, Purpose, TrialRecord, disqualified
from tuner.runs.launching import Order, last_wall_s
from tuner.runs.works.soaking import GAPS_S, Endurance, Rested, Soak
from tuner.search.queue import wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.launch import LaunchSpec
    from tuner.core.soak import Soaked
    from tuner.runs.desk import Desk
    from tuner.runs.trial_folder import TrialFolder

#: The part of the time left that the longest prompt may take.
_LONGEST_PART = 0.4
#: Launches that show how much launches differ.
_ENOUGH_LAUNCHES = 3
#: A soak takes more than so many launches of the same.
LEAST_LAUNCHES = 2.0
#: Less endurance than this is not worth a launch.
LEAST_ENDURANCE_S = 30.0


class Soaking:
    """Soak and endurance of one study.

    Args:
        desk: What every part of a run works with.
        gaps_s: How long the winner is left alone between requests, one after the other.
    """

    def __init__(self, desk: Desk, *, gaps_s: Sequence[float] = GAPS_S) -> None:
        self._workload = desk.rules.workload
        self._devices = desk.rules.devices
        self._launching = desk.launching
        self._store = desk.store
        self._interrupts = desk.interrupts
        self._recorded = desk.recorded
        self._gaps_s = gaps_s

    def soak(
        self, spec: LaunchSpec, confirmation_round: int, left_s: Callable[[], float | None]
    ) -> TrialRecord | None:
        """Put it through the hardest that it is for, unless that was done.

        Args:
            spec: What to launch.
            confirmation_round: Which confirmation made it the winner; 0 for none.
            left_s: Seconds that are left; None for any.

        Returns:
            The trial that says most of it; None where somebody asked to stop, or there was no time for one.
        """
        last = None
        while not self._interrupts.requested:
            records = self._store.records()
            done = [r for r in records if r.key == spec.key and r.errand.purpose is Purpose.SOAK]
            if done and (disqualified(done) or not wanted(spec.key, done)):
                return done[-1]
            left = left_s()
            if left is not None and left < LEAST_LAUNCHES * (last_wall_s(spec.key, records) or 0.0):
                return last
            diary = _Diary()
            work = Soak(
                self._workload,
                rested(spec.key, records),
                self._devices,
                seconds=None if left is None else left * _LONGEST_PART,
                on_soaked=diary.note,
            )
            order = Order(
                spec,
                "soak: the longest prompt and a long answer",
                work,
                Errand(Purpose.SOAK, confirmation_round),
                left,
            )
            last = self._launched(order, work, diary)
            if last is None:
                return None
        return None

    def endure(self, spec: LaunchSpec, confirmation_round: int, seconds: float) -> TrialRecord | None:
        """Let it work on for so long; None where somebody asked to stop before it began."""
        diary = _Diary()
        work = Endurance(
            self._workload,
            self._devices,
            seconds=seconds,
            spread=rested(spec.key, self._store.records()).spread,
            gaps_s=self._gaps_s,
            on_soaked=diary.note,
        )
        return self._launched(
            Order(spec, "endurance", work, Errand(Purpose.ENDURE, confirmation_round)), work, diary
        )

    def _launched(self, order: Order, work: Soak | Endurance, diary: _Diary) -> TrialRecord | None:
        record = self._launching.make(
            order,
            self._store.records(),
            began=time.monotonic(),
            prepared=diary.open,
            finished=lambda result, _folder: replace(result, soak=work.soaked),
        )
        if record is not None:
            self._recorded(record)
        return record


class _Diary:
    """Writes down what a server goes through in its trial's folder, as soon as there is one."""

    def __init__(self) -> None:
        self._folder: TrialFolder | None = None

    def open(self, folder: TrialFolder) -> None:
        """The trial's folder exists."""
        self._folder = folder

    def note(self, soaked: Soaked) -> None:
        """Replace what was written before."""
        if self._folder is not None:
            self._folder.record_soaked(soaked)


def rested(key: str, records: Sequence[TrialRecord]) -> Rested:
    """How fast a configuration was when it was confirmed, prompt by prompt; else when it was searched."""
    own = [r for r in records if r.key == key and r.score is not None and r.result is not None]
    confirmed = [r for r in own if r.errand.purpose is Purpose.CONFIRM] or own
    samples = [sample for r in confirmed if r.result is not None for sample in r.result.samples]
    names = dict.fromkeys(sample.prompt_id for sample in samples)
    each = {name: rates(s for s in samples if s.prompt_id == name).generation_tok_s for name in names}
    logs = [log(r.score) for r in confirmed if r.score]
    return Rested(
        {name: rate for name, rate in each.items() if rate is not None},
        rates(samples).prompt_tok_s,
        spread=stdev(logs) if len(logs) >= _ENOUGH_LAUNCHES else 0.0,
    )
