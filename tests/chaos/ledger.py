"""What a study must hold after each run, however the one before it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.boundaries import Leaves
from tuner.core.outcome import Kind
from tuner.core.trial import best_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.arena import Arena
    from tuner.core.trial import TrialRecord

#: A candidate that was cut comes again at most so often.
CUTS_FORGIVEN = 2


@dataclass(slots=True)
class Findings:
    """What is wrong, by column of the table; all empty is good."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, more: Findings) -> None:
        """Take over what another look has found."""
        self.lost += more.lost
        self.doubled += more.doubled
        self.orphans += more.orphans
        self.wrong += more.wrong

    @property
    def sentences(self) -> list[str]:
        """All of it."""
        return [*self.lost, *self.doubled, *self.orphans, *self.wrong]


class Ledger:
    """Remembers what was recorded, and compares."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._ended: dict[int, tuple[str, Kind, float | None]] = {}
        self._due: tuple[int, Kind] | None = None
        self._orphans = 0
        self._torn = 0

    def left(self) -> Leaves:
        """What the last run has left of its last trial, to be called right after it."""
        running = [record for record in self._arena.records() if record.result is None]
        if not running:
            self._due = None
            return Leaves.NOTHING
        number = running[-1].number
        found = self._arena.trial_folder(number).result()
        self._due = (number, Kind.STOPPED if found is None else found[0].outcome.kind)
        return Leaves.CUT if found is None else Leaves.RESULT

    def cuts_of_the_next(self) -> int:
        """How often the candidate that will come next was cut already."""
        records = self._arena.records()
        if not records or not _is_cut(records[-1]):
            return 0
        return sum(record.key == records[-1].key for record in records)

    def check(self, *, complete: bool, only_cuts: bool = True) -> Findings:
        """Look at everything.

        Args:
            complete: Whether the run ended by itself, so that nothing may be left.
            only_cuts: Whether being cut is all that a candidate is tried again for.
        """
        records = self._arena.records()
        found = Findings()
        self._check_numbers(records, found)
        self._check_launches(records, found)
        if only_cuts:
            self._check_candidates(records, found, complete=complete)
        self._check_cut(records, found)
        running = [record.number for record in records if record.result is None]
        allowed = records[-1:] if not complete else []
        if stray := set(running) - {record.number for record in allowed}:
            found.wrong.append(f"trials {sorted(stray)} were never settled")
        self._check_best(records, found, complete=complete)
        orphans = self._arena.orphans()
        found.orphans += [f"server {pid} lived on into the next run" for pid in orphans[self._orphans :]]
        self._orphans = len(orphans)
        if complete:
            found.orphans += self._arena.leftovers()
        self._ended = {r.number: (r.key, _kind(r), r.score) for r in records if r.result is not None}
        return found

    def _check_numbers(self, records: Sequence[TrialRecord], found: Findings) -> None:
        """Each number once, and what was recorded once stays as it was."""
        numbers = Counter(record.number for record in records)
        found.doubled += [f"trial {number} is there twice" for number, n in numbers.items() if n > 1]
        if missing := set(range(max(numbers, default=-1) + 1)) - set(numbers):
            found.lost.append(f"trials {sorted(missing)} are missing")
        now = {r.number: (r.key, _kind(r), r.score) for r in records if r.result is not None}
        found.lost += [
            f"trial {number} was {before} and is {now.get(number)}"
            for number, before in self._ended.items()
            if now.get(number) != before
        ]

    def _check_launches(self, records: Sequence[TrialRecord], found: Findings) -> None:
        """Each server that was started is one trial's, and a trial's folder has its trial."""
        journalled = self._arena.journalled()
        numbers = {record.number for record in records}
        found.lost += [f"trial {n} has a folder only" for n in journalled.values() if n not in numbers]
        launched = Counter(tuple(start["argv"]) for start in self._arena.starts())
        found.lost += [f"a launch is in no journal: {argv}" for argv in launched if argv not in journalled]
        found.doubled += [
            f"trial {journalled.get(argv)} was launched {n} times" for argv, n in launched.items() if n > 1
        ]

    def _check_candidates(self, records: Sequence[TrialRecord], found: Findings, *, complete: bool) -> None:
        """Nothing is measured twice; what was cut comes again, and not for ever."""
        tries: dict[str, list[Kind]] = {}
        for record in records:
            if record.result is not None:
                tries.setdefault(record.key, []).append(_kind(record))
        for key, kinds in tries.items():
            if any(kind is not Kind.STOPPED for kind in kinds[:-1]):
                found.doubled.append(f"{key} was tried again after its end: {kinds}")
            if len(kinds) > 1 + CUTS_FORGIVEN:
                found.doubled.append(f"{key} came again {len(kinds) - 1} times")
            # where it was the last launch that the study may make, none is left
            if complete and kinds[-1] is Kind.STOPPED and key != records[-1].key:
                found.lost.append(f"{key} was cut and never came again: {kinds}")

    def _check_cut(self, records: Sequence[TrialRecord], found: Findings) -> None:
        """The trial that was cut off has the outcome that it has to have."""
        if self._due is None:
            return
        number, due = self._due
        record = next((record for record in records if record.number == number), None)
        if record is not None and record.result is None:
            return  # not settled yet: the restart was killed as well
        got = None if record is None else _kind(record)
        if got is not due:
            found.wrong.append(f"trial {number} was cut: {got} is recorded, {due} is right")

    def _check_best(self, records: Sequence[TrialRecord], found: Findings, *, complete: bool) -> None:
        found.wrong += self._arena.torn[self._torn :]
        self._torn = len(self._arena.torn)
        best = best_of(records)
        if complete and best is not None and self._arena.command.best()["winner"]["trial"] != best.number:
            found.wrong.append(f"best.json does not name trial {best.number}")


def _kind(record: TrialRecord) -> Kind:
    assert record.outcome is not None
    return record.outcome.kind


def _is_cut(record: TrialRecord) -> bool:
    return record.outcome is None or record.outcome.kind is Kind.STOPPED
