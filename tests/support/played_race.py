"""A race whose studies are played: what each makes, and when, is what a test says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.support.launch_bench import NeverInterrupted
from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, trial_key
from tuner.core.outcome import Kind
from tuner.core.pareto import Worth
from tuner.core.trial import Errand, Purpose, TrialRecord, best_of, searched
from tuner.errors import EngineError
from tuner.runs import race as race_module
from tuner.runs.budget import Budget
from tuner.runs.ending import Ending
from tuner.runs.race import Race, Turn
from tuner.runs.several import Several
from tuner.search.race_state import RaceState
from tuner.search.racing import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

LAUNCH_S = 10.0
CONTEXT = 16_384


@dataclass
class Clock:
    """Seconds pass when a launch is made."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class Stopping(NeverInterrupted):
    """Somebody asks to stop after so many launches; knows all that were made."""

    after: int | None = None
    made: list[tuple[str, Purpose]] = field(default_factory=list)

    @property
    def requested(self) -> bool:  # type: ignore[override]  # a field there
        return self.after is not None and len(self.made) >= self.after

    def allows(self) -> bool:
        return not self.requested


@dataclass
class PlayedRacer:
    """A study whose search finds candidates one after the other."""

    name: str
    speeds: tuple[float, ...]
    """What its candidates make, in the order in which the search finds them; 0 for what runs out of memory."""
    file: str = "Q8"
    off_nats: float | None = 0.0
    most_context: int = 32_768
    """The largest that it is expected to have, whatever the configuration."""
    wall: int = 32_768
    """The largest that its winner runs with."""
    beside: Callable[[int], float] = lambda _block: 1.0
    """What its speed is multiplied by in each block beside the others."""
    breaks_at: int | None = None
    """The launch at which the engine turns out to be broken."""
    has_users: bool = False
    """Whether the user's own command is of it: it makes 20 tok/s."""
    does_not_endure: int = 0
    """How many of its winners do not endure."""
    default_tok_s: float = 25.0
    """What the engine's own choice makes; 0 where it does not run."""
    clock: Clock = field(default_factory=Clock)
    interrupts: Stopping = field(default_factory=Stopping)
    trials: list[TrialRecord] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    proofs: list[tuple[float | None, float]] = field(default_factory=list)

    n_references = 1

    def records(self) -> Sequence[TrialRecord]:
        return self.trials

    def runner(self, *, over: bool) -> Runner:
        candidates = [one for one in searched(self.trials) if one.candidate is not None]
        best = best_of(self.trials)
        speed = None if best is None else best.score
        return Runner(
            self.name,
            Worth(speed, None if best is None else self.most_context, self.off_nats, self.file),
            self.most_context,
            self.off_nats,
            len(candidates),
            len(searched(self.trials)),
            over,
        )

    def has_reference(self) -> bool:
        return bool(self.trials)

    def winner(self) -> str | None:
        best = best_of(self.trials)
        return None if best is None else best.key

    def users_command(self) -> str | None:
        return trial_key(None, CURRENT) if self.has_users and self.trials else None

    def search(self, turn: Turn) -> Ending:
        self.turns.append(turn)
        began = self.clock.now_s
        while len(searched(self.trials)) < turn.launches:
            place = len(searched(self.trials)) - 1
            if self.breaks_at == place:
                raise EngineError("trial 1: bad-model: unknown architecture")
            if place >= len(self.speeds):
                return Ending("everything was tried", is_complete=True)
            if turn.seconds is not None and self.clock.now_s - began + LAUNCH_S > turn.seconds:
                return Ending("too short for another launch")
            if not self._may_go_on():
                return Ending("asked to stop", interrupted=True)
            if place < 0:
                self._add(None, self.default_tok_s, reference=ENGINE_DEFAULT)
            else:
                self._add(self.candidate(place), self.speeds[place])
        return Ending(f"all {turn.launches} launches are made")

    def prove(self, budget_s: float | None, endure_s: float) -> Ending:
        self.proofs.append((budget_s, endure_s))
        best = best_of(self.trials)
        confirmed = any(one.errand.purpose is Purpose.CONFIRM for one in self.trials)
        if best is not None and not confirmed:
            if not self._may_go_on():
                return Ending("asked to stop", interrupted=True)
            self._add(best.candidate, best.score or 0.0, Errand(Purpose.CONFIRM, 1), reference=best.reference)
        endured = [
            one for one in self.trials if one.errand.purpose is Purpose.ENDURE and one.key == self.winner()
        ]
        if endure_s and best is not None and not endured:
            if not self._may_go_on():
                return Ending("asked to stop", interrupted=True)
            fails = self.does_not_endure > 0
            self.does_not_endure -= fails
            speed = 0.0 if fails else best.score or 0.0
            self._add(best.candidate, speed, Errand(Purpose.ENDURE, 1), reference=best.reference)
        return Ending("the winner is confirmed, and it survived")

    def endured_s(self) -> float:
        return 0.0

    def expected_context(self, winner: Candidate) -> int:
        assert winner.get("ctx-size") == CONTEXT
        return self.most_context

    def stretch(self, winner: Candidate, context: int, limit_s: float | None) -> TrialRecord | None:
        assert limit_s is None or limit_s > 0
        if not self._may_go_on():
            return None
        speed = max(self.speeds) if context <= self.wall else 0.0
        return self._add(winner.with_options({"ctx-size": context}), speed, Errand(Purpose.STRETCH))

    def measure(self, key: str, why: str, errand: Errand, limit_s: float | None) -> TrialRecord | None:
        assert why.startswith("side by side")
        assert limit_s is None or limit_s > 0
        if not self._may_go_on():
            return None
        if key == trial_key(None, CURRENT):
            return self._add(None, 20.0, errand, reference=CURRENT)
        known = next(one for one in self.trials if one.key == key)
        speed = (known.score or 0.0) * self.beside(errand.block)
        return self._add(known.candidate, speed, errand, reference=known.reference)

    @staticmethod
    def candidate(place: int) -> Candidate:
        return Candidate.of({"ubatch-size": 64 * (place + 1), "ctx-size": CONTEXT})

    def contexts(self) -> list[int]:
        """Those that its winner was launched with, beside its own."""
        found = [one.candidate for one in self.trials if one.errand.purpose is Purpose.STRETCH]
        return [int(str(one.get("ctx-size"))) for one in found if one is not None]

    def _may_go_on(self) -> bool:
        return self.interrupts.allows()

    def _add(
        self,
        candidate: Candidate | None,
        speed: float,
        errand: Errand | None = None,
        *,
        reference: str | None = None,
    ) -> TrialRecord:
        result = measured(speed) if speed else ended(Kind.OUT_OF_MEMORY)
        record = a_record(len(self.trials), candidate, result, reference=reference, wall_s=LAUNCH_S)
        self.trials.append(record if errand is None else replace(record, errand=errand))
        self.clock.now_s += LAUNCH_S
        self.interrupts.made.append((self.name, self.trials[-1].errand.purpose))
        return self.trials[-1]


@dataclass
class PlayedRace:
    """A race and what is kept of it: every `go` is a tuner of its own."""

    racers: tuple[PlayedRacer, ...]
    monkeypatch: pytest.MonkeyPatch
    clock: Clock = field(default_factory=Clock)
    interrupts: Stopping = field(default_factory=Stopping)
    notes: list[str] = field(default_factory=list)
    kept: list[RaceState] = field(default_factory=list)
    interrupted: bool = False
    """Whether somebody asked the last tuner to stop."""

    def __post_init__(self) -> None:
        self.monkeypatch.setattr(race_module, "time", self.clock)
        for racer in self.racers:
            racer.clock, racer.interrupts = self.clock, self.interrupts

    def go(
        self,
        launches: int | None = None,
        *,
        seconds: float | None = None,
        blocks: int = 0,
        soak: bool = False,
        endure_s: float | None = None,
    ) -> Race:
        """Go on with what is kept."""
        names, budget = [racer.name for racer in self.racers], (seconds, launches)
        known = RaceState.from_json(self.kept[-1].to_json()) if self.kept else RaceState(tuple(names), budget)
        race = Race(
            self.racers,
            known.taken_up(names, budget),
            budget=Budget(*budget),
            keep=lambda race: self.kept.append(race.state),
            note=self.notes.append,
            interrupts=self.interrupts,
        )
        self.interrupted = Several(race, blocks=blocks, soak=soak, endure_s=endure_s, worthwhile=0.01).run()
        return race

    @property
    def made(self) -> list[tuple[str, Purpose]]:
        """All launches, in order."""
        return self.interrupts.made

    def searched(self) -> dict[str, int]:
        """Launches of each search, references included."""
        return {racer.name: len(searched(racer.trials)) for racer in self.racers}
