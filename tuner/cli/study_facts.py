"""What is known of one engine with one file: its study on the disk, and what follows from that for a race."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.cli.dates import now
from tuner.cli.study_folder import DATABASE
from tuner.cli.tuning import open_store
from tuner.core.launch import CURRENT, trial_key
from tuner.core.pareto import Worth
from tuner.core.trial import Purpose, TrialRecord, searched
from tuner.report.best import best_document, shown
from tuner.report.table import row_of
from tuner.runs.budget import launches_made
from tuner.runs.quality_gate import reference_probe
from tuner.runs.several import candidate_of
from tuner.search.against_largest import least_off_nats, loss_of
from tuner.search.confirmation.result import winner_of
from tuner.search.largest import largest_context, largest_with
from tuner.search.racing import Out, Runner
from tuner.search.stretching import context_of, reached

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tuner.cli.build.assembly import Assembly
    from tuner.cli.build.cells import Cell
    from tuner.core.candidate import Candidate
    from tuner.core.quality import Probe
    from tuner.core.table import Row
    from tuner.runs.tune import TunePlan
    from tuner.study import StudyStore


class StudyFacts:
    """A study of a race, as it stands.

    Args:
        cell: Which engine with which file.
        assembly: Everything that it needs.
    """

    def __init__(self, cell: Cell, assembly: Assembly) -> None:
        self.cell = cell
        self.assembly = assembly
        self._reference: Callable[[], str | None] = lambda: None
        self._store: StudyStore | None = open_store(assembly) if (self.folder / DATABASE).is_file() else None
        self._records: list[TrialRecord] | None = None
        self._reach: tuple[object, tuple[int | None, int | None]] = (None, (None, None))

    @property
    def name(self) -> str:
        """What it is called."""
        return self.cell.name

    @property
    def folder(self) -> Path:
        """The study's."""
        return self.assembly.study_folder

    @property
    def n_references(self) -> int:
        """References that its winner is compared with."""
        return len(self.assembly.plan.references)

    @property
    def is_reference(self) -> bool:
        """Whether it is its plain reference that all answers are compared with."""
        return self._reference() == self.name

    def records(self) -> Sequence[TrialRecord]:
        """All its trials."""
        if self._store is None:
            return ()
        if self._records is None:
            self._records = self._store.records()
        return self._records

    def runner(self, *, over: bool) -> Runner:
        """What is known of it.

        Args:
            over: Whether its search has nothing left to find.
        """
        records, key = self.records(), self.winner()
        context, most_context = self._contexts(key)
        best = self._worth(key, context)
        return Runner(
            self.name,
            best,
            most_context,
            least_off_nats(records, is_reference=self.is_reference),
            candidates=sum(record.candidate is not None for record in searched(records)),
            launches=launches_made(searched(records)),
            over=over,
        )

    def winner(self) -> str | None:
        """The key of its best configuration; None where nothing was measured."""
        return None if self._store is None else winner_of(self._store.confirmation(), self.records())

    def users_command(self) -> str | None:
        """The key of the user's own command; None where that belongs to another study, or does not run."""
        key = trial_key(None, CURRENT)
        return key if any(one.key == key and one.score is not None for one in self.records()) else None

    def probe(self) -> Probe | None:
        """What its plain reference would say next; None where it was not looked at."""
        return reference_probe(self.records(), self.folder)

    def has_reference(self) -> bool:
        """Whether its plain reference was looked at, so that others can be compared with it."""
        return self.probe() is not None

    def endured_s(self) -> float:
        """For how long its winner has been let work."""
        key = self.winner()
        return sum(
            one.result.soak.seconds
            for one in self.records()
            if one.key == key
            and one.errand.purpose is Purpose.ENDURE
            and one.result is not None
            and one.result.soak is not None
        )

    def expected_context(self, winner: Candidate) -> int:
        """The largest context that its winner is expected to fit with."""
        trained = self.assembly.model.n_ctx_train
        self._learn()
        memory = self._plan.rules.memory
        return largest_with(
            winner,
            lambda one: memory.predictor.predict(one.options),
            memory.room_mib,
            most_tokens=trained or context_of(winner),
        )

    def best(self) -> dict[str, Any] | None:
        """Its best.json; None where nothing was measured."""
        if self._store is None:
            return None
        confirmation = self._store.confirmation()
        return best_document(self.records(), self._store.facts, date=now(), confirmation=confirmation)

    def row(self, out: Out | None) -> Row:
        """Its row of the table.

        Args:
            out: Why it cannot win; None where it can.
        """
        records, key = self.records(), self.winner()
        candidate = candidate_of(key, records)
        return row_of(
            self.name,
            self.cell.engine,
            self.cell.file,
            self.assembly.model.size_bytes,
            best=self.best(),
            records=records,
            context=self.assembly.context,
            longest=None if candidate is None else reached(candidate, records),
            expected_context=self._contexts(key)[0],
            loss=loss_of(key, records, is_reference=self.is_reference),
            is_reference=self.is_reference,
            out=out,
        )

    def has_tokens_of(self, other: StudyFacts) -> bool:
        """Whether its answers can be compared with another's, token by token."""
        mine, theirs = self.assembly.model.vocabulary, other.assembly.model.vocabulary
        return bool(mine) and mine == theirs

    @property
    def _plan(self) -> TunePlan:
        return self.assembly.plan

    @property
    def _used_s(self) -> float:
        return sum(record.wall_s for record in self.records())

    def _contexts(self, key: str | None) -> tuple[int | None, int | None]:
        """The largest context of its best, launched or expected, and the largest that anything of it may have."""
        at = (len(self.records()), key)
        if self._reach[0] != at:
            self._reach = (at, self._contexts_now(key))
        return self._reach[1]

    def _contexts_now(self, key: str | None) -> tuple[int | None, int | None]:
        if key is None:
            return None, None
        candidate = candidate_of(key, self.records())
        own = self.assembly.context  # of a reference nobody knows what it would take with more
        if candidate is not None:
            longest = reached(candidate, self.records())
            known = None if longest is None else longest.candidate
            own = self.expected_context(candidate) if known is None else context_of(known)
        self._learn()
        bound, memory = self._plan.rules.bound, self._plan.rules.memory
        most = largest_context(
            lambda context: replace(bound, imposed={**bound.imposed, "ctx-size": context}),
            lambda one: memory.predictor.predict(one.options),
            memory.room_mib,
            most_tokens=self.assembly.model.n_ctx_train or own,
        )
        return own, max(own, most or 0)

    def _worth(self, key: str | None, context: int | None) -> Worth:
        """What a configuration is worth, with the largest context that it has."""
        file = self.assembly.model.fingerprint
        if key is None or self._store is None:
            return Worth(None, context, None, file)
        loss = loss_of(key, self.records(), is_reference=self.is_reference)
        off = loss.judged_nats if loss is not None else 0.0 if self.is_reference else None
        return Worth(shown(key, self.records(), self._store.confirmation()).score, context, off, file)

    def _learn(self) -> None:
        """Let the memory model take in what the study's launches have shown."""
        if self._store is not None and self.records():
            memory = self._plan.rules.memory
            memory.begin_with(self._store.memory_before(memory.known_before))
            memory.learn(self.records())
