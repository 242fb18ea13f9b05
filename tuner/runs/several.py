"""Several studies as one: they race for a budget, and what is left is proved, stretched and compared.

Each study is one engine with one file: its own space (what that engine's help lists, cut by that file's rules), its
own memory model, speed model and references. So engine and file are chosen above the studies, by a race, and not by
parameters within one of them: a split of one file is no neighbour of the same split of another, a KV type of one
engine need not exist for the other, and each winner has to be confirmed against its own engine's choice. What is the
same is handed on: what a rig takes of memory, what its devices reach with an engine, what was best elsewhere.

1. **Race** (`tuner.search.racing`): a few launches each in turns; who cannot win any more makes way for the others.
2. **Proof**: what is left is confirmed and soaked, each study in its own folder as a study of its own would be.
3. **Stretch**: each winner is launched with the largest context that it is expected to fit with.
4. **Side by side** (`tuner.search.side_by_side`): the winners in turns, for ratios that drift cannot fake.
5. **Endurance**: the winner of all works for what is left of the time.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.trial import searched
from tuner.errors import EngineError, ModelError
from tuner.runs.budget import launches_made
from tuner.runs.comparing import Comparing, speed_of
from tuner.runs.race import Race, Racer, Turn, usual_wall_s
from tuner.search.racing import LEAST_LAUNCHES, Out, losers, next_turn
from tuner.search.stretching import next_context

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.trial import TrialRecord

#: Launches of a turn after the first.
TURN_LAUNCHES = 4
#: The part of the time that is kept for what follows the search, at most.
_MOST_RESERVED = 0.5
#: The part of what is left then that the proofs may take; the rest is for comparing.
_PROOF_PART = 0.6
#: Launches that a soak and a stretch take the time of, and leaders that are usually confirmed.
_SOAK_LAUNCHES, _STRETCH_LAUNCHES, _USUAL_LEADERS = 4, 2, 2


class Several:
    """The run.

    Args:
        race: The studies, their time and state.
        blocks: Launches a side that confirm and compare winners, at most; 0 for none.
        soak: Whether winners are put to the test.
        endure_s: For how long the winner of all is let work; None for what is left of the budget.
        worthwhile: A difference that is worth while, as a part.
    """

    def __init__(
        self, race: Race, *, blocks: int, soak: bool, endure_s: float | None, worthwhile: float
    ) -> None:
        self._race = race
        self._blocks = blocks
        self._soak = soak
        self._endure_s = endure_s
        self._comparing = Comparing(race, blocks=blocks, worthwhile=worthwhile)

    def run(self) -> bool:
        """Go on to the end; whether somebody asked to stop before.

        Raises:
            TunerError: The run cannot go on.
        """
        race = self._race
        if not self._search():
            return True
        for racer in sorted(race.left, key=speed_of, reverse=True):
            if racer.winner() is not None and not (self._prove(racer) and self._stretch(racer)):
                return True
            race.now(race.state)
        return not (self._comparing.run() and self._endure())

    # --- the race

    def _search(self) -> bool:
        """Let all search in turns; whether it came to its end."""
        race = self._race
        complete: set[str] = set()
        stuck: set[str] = set()  # what is left of the time is too short for another launch of theirs
        while not race.state.searched:
            if race.interrupts.requested:
                return False
            seconds = self._search_s()
            if race.state.turn is None:  # a turn that was cut off is finished first
                self._give_turn(complete, stuck)
            if race.state.turn is None or seconds == 0:
                race.now(replace(race.state, turn=None, searched=True))
                break
            name, launches = race.state.turn
            racer = race.racer(name)
            before = len(racer.records())
            try:
                ending = racer.search(Turn(launches, seconds))
            except (EngineError, ModelError) as error:  # this engine with this file, not the rig
                self._drop([Out(name, None, str(error), racer.runner(over=True).candidates)])
            else:
                if ending.interrupted:
                    return False
                if ending.is_complete:
                    complete.add(name)
                elif len(racer.records()) == before:
                    stuck.add(name)
            self._find_reference()
            race.now(replace(race.state, turn=None))
        return True

    def _give_turn(self, complete: Collection[str], stuck: Collection[str]) -> None:
        """Drop who cannot win any more, and give the next turn.

        Args:
            complete: Whose search has nothing left to find.
            stuck: Who finds no launch that fits into the time left.
        """
        race = self._race
        runners = [racer.runner(over=racer.name in complete) for racer in race.left]
        self._drop(losers(runners))
        launches = race.left_launches
        following = next_turn([one for one in runners if one.name not in stuck], race.state.gone)
        if following is not None and launches != 0:
            racer = race.racer(following.name)
            race.now(replace(race.state, turn=(racer.name, self._turn_of(racer, launches))))

    def _turn_of(self, racer: Racer, launches: int | None) -> int:
        """How many launches a search has made once its next turn is through."""
        made = launches_made(searched(racer.records()))
        first = racer.n_references + LEAST_LAUNCHES
        more = first - made if made < first else TURN_LAUNCHES
        if launches is not None:  # so few that not all would come to their first turn
            waiting = sum(not one.records() for one in self._race.left)
            more = min(more, launches, max(launches // max(waiting, 1), 1))
        return made + more

    def _drop(self, out: Sequence[Out]) -> None:
        race = self._race
        if not out:
            return
        for one in out:
            by = "" if one.by is None else f", {one.by} is better"
            race.note(f"Out after {one.launches} launches: {one.name}{by}: {one.why}")
        race.now(replace(race.state, out=(*race.state.out, *out)))

    def _find_reference(self) -> None:
        """The first study, largest file first, whose plain reference was looked at; it stays that."""
        race = self._race
        if race.state.reference is None:
            found = next((racer.name for racer in race.racers if racer.has_reference()), None)
            if found is not None:
                race.now(replace(race.state, reference=found))

    def _search_s(self) -> float | None:
        """Seconds that searching may still take; None for any."""
        race, left = self._race, self._race.left_s
        if left is None or race.budget.seconds is None or not (self._blocks or self._soak):
            return left
        most = race.budget.seconds * _MOST_RESERVED
        walls = [usual_wall_s(racer.records()) for racer in race.left]
        if any(wall is None for wall in walls):
            return max(left - most, 0.0)
        after = sum(
            (wall or 0.0) * (self._proof_launches(racer) + self._blocks)
            for wall, racer in zip(walls, race.left, strict=True)
        )
        return max(left - min(after, most), 0.0)

    def _proof_launches(self, racer: Racer) -> int:
        """What proof and stretch of a study take the time of."""
        confirming = self._blocks * (_USUAL_LEADERS + racer.n_references)
        return confirming + (_SOAK_LAUNCHES if self._soak else 0) + _STRETCH_LAUNCHES

    # --- what follows

    def _prove(self, racer: Racer) -> bool:
        """Prove a study's winner in its share of the time; whether it came to its end."""
        race, left = self._race, self._race.left_s
        if racer.name not in race.state.proof_s:
            budget_s = None
            if left is not None:
                open_ = [one for one in race.left if one.name not in race.state.proof_s]
                used_s = sum(record.wall_s for record in racer.records())
                budget_s = used_s + left * _PROOF_PART / max(len(open_), 1)
            proofs = MappingProxyType({**race.state.proof_s, racer.name: budget_s})
            race.now(replace(race.state, proof_s=proofs))
        return not racer.prove(race.state.proof_s[racer.name], 0.0).interrupted

    def _stretch(self, racer: Racer) -> bool:
        """Launch a winner with the largest context that is expected to fit; whether nobody asked to stop."""
        race = self._race
        winner = candidate_of(racer.winner(), racer.records())
        if winner is None:
            return True
        while not race.interrupts.requested:
            context = next_context(winner, racer.records(), racer.expected_context(winner))
            left, wall = race.left_s, usual_wall_s(racer.records())
            if context is None or (left is not None and wall is not None and wall > left):
                return True
            if racer.stretch(winner, context, left) is None:
                return False
        return False

    def _endure(self) -> bool:
        """Let the winner of all work for what is left; who fails makes way for the next."""
        race = self._race
        while self._soak and (name := self._comparing.winner()) is not None:
            racer = race.racer(name)
            before = racer.winner()
            seconds = self._endure_s
            if seconds is None:
                seconds = racer.endured_s() + (race.left_s or 0.0)
            if racer.prove(race.state.proof_s.get(name), seconds).interrupted:
                return False
            race.now(race.state)
            if racer.winner() == before:
                return True
            race.note(f"What won with {name} did not endure; the next best takes its place.")
        return True


def candidate_of(key: str | None, records: Sequence[TrialRecord]) -> Candidate | None:
    """The candidate of that key; None for a reference, or where there is none."""
    return next((one.candidate for one in records if one.key == key and one.candidate is not None), None)
