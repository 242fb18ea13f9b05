"""What a study must hold after each run, however the one before it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.chaos.boundaries import Leaves
from tuner.core.outcome import Kind
from tuner.core.trial import Errand, Purpose, searched
from tuner.report.best import shown
from tuner.search.confirmation.result import winner_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.chaos.arena import Arena
    from tuner.core.trial import TrialRecord

#: A candidate that was cut comes again at most so often.
CUTS_FORGIVEN = 2
#: Of the second that is asked for; what is nearly done is not begun again.
_LEAST_ENDURANCE_S = 0.9


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
        """How often the launch that will come next was cut already; an endurance goes on where it was cut."""
        records = self._arena.records()
        if not records or not _is_cut(records[-1]) or records[-1].errand.purpose is Purpose.ENDURE:
            return 0
        return sum(_wish(record) == _wish(records[-1]) for record in records)

    def must_end_in_peace(self) -> bool:
        """Whether a soak comes next that was cut as often as is forgiven; it passes a boundary many times."""
        records = self._arena.records()
        soak = bool(records) and records[-1].errand.purpose is Purpose.SOAK
        return soak and self.cuts_of_the_next() >= CUTS_FORGIVEN

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
        """Nothing is launched twice for the same; what was cut comes again, and not for ever."""
        tries: dict[tuple[str, Errand], list[Kind]] = {}
        for record in records:
            if record.result is not None:
                tries.setdefault(_wish(record), []).append(_kind(record))
        # where it was the last launch that the study may make, none is left
        last = [_wish(rows[-1]) for rows in (records, searched(records)) if rows]
        for wish, kinds in tries.items():
            name = f"{wish[0]} ({wish[1]})"
            if any(kind is not Kind.STOPPED for kind in kinds[:-1]):
                found.doubled.append(f"{name} was tried again after its end: {kinds}")
            if len(kinds) > 1 + CUTS_FORGIVEN and wish[1].purpose is not Purpose.ENDURE:
                found.doubled.append(f"{name} came again {len(kinds) - 1} times")
            if complete and kinds[-1] is Kind.STOPPED and wish not in last:
                found.lost.append(f"{name} was cut and never came again: {kinds}")

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
        if not complete or not records:
            return
        confirmation = self._arena.confirmation()
        winner = winner_of(confirmation, records)
        if winner is None:
            return
        best = self._arena.command.best()
        number = shown(winner, records, confirmation).number
        if best["winner"]["trial"] != number:
            found.wrong.append(f"best.json does not name trial {number}")
        if self._arena.proved:
            self._check_proof(best, found)

    def _check_proof(self, best: Mapping[str, Any], found: Findings) -> None:
        """A study that is complete has a winner that went through all of it."""
        proof = (best["confirmation"], best["soak"], best["endurance"])
        if None in proof or not best["confirmation"]["finished"] or best["soak"]["outcome"] != "none":
            found.lost.append(f"the winner was not proved: {proof}")
        elif best["endurance"]["seconds"] < _LEAST_ENDURANCE_S:
            found.lost.append(f"the winner worked on for {best['endurance']['seconds']} s only")


def _kind(record: TrialRecord) -> Kind:
    assert record.outcome is not None
    return record.outcome.kind


def _wish(record: TrialRecord) -> tuple[str, Errand]:
    """What it was launched for: one of these has one end."""
    return record.key, record.errand


def _is_cut(record: TrialRecord) -> bool:
    return record.outcome is None or record.outcome.kind is Kind.STOPPED
