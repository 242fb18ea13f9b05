"""From a search's leaders to a proven winner: confirmed, soaked, and put to work for what is left of the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind
from tuner.core.trial import Purpose, TrialRecord, disqualified
from tuner.runs.confirming import Confirming
from tuner.runs.ending import Ending
from tuner.runs.launching import last_wall_s
from tuner.runs.soaking import LEAST_ENDURANCE_S, LEAST_LAUNCHES, Soaking
from tuner.search.confirmation.result import result_of, winner_of
from tuner.search.confirmation.state import gone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchSpec
    from tuner.runs.budget import Budget
    from tuner.runs.desk import Desk
    from tuner.search.confirmation.state import Confirmation

#: An endurance during which a card throttled was an endurance all the same.
_SURVIVED = frozenset({Kind.NONE, Kind.DISTURBED})
#: The part of the time left that confirming may take, where a soak follows.
_CONFIRMED_PART = 0.75
#: The part of an endurance that is not worth another launch.
_NEARLY_DONE = 0.05


@dataclass(frozen=True, slots=True)
class Proof:
    """How a winner is proved."""

    confirm_blocks: int
    """Launches a side that confirm it, at most; 0 for none."""
    soak: bool
    """Whether it is put to the test."""
    endure_s: float | None = None
    """For how long it is let work; None for what is left of the budget's time."""
    gaps_s: tuple[float, ...] = ()
    """How long it is left alone meanwhile, one after the other."""


NO_PROOF = Proof(confirm_blocks=0, soak=False)


class Proving:
    """The proof of a study's winner, new or resumed.

    Args:
        desk: What every part of a run works with.
        references: What the winner is compared with.
        candidate_spec: How a candidate is launched.
        budget: What the study may use.
        proof: How the winner is proved.
        worthwhile: A difference that is worth while, as a part.
        used_s: Seconds that the study has used so far.
        launches: How many launches confirming may still take; None for any.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        references: Sequence[LaunchSpec],
        candidate_spec: Callable[[Candidate], LaunchSpec],
        budget: Budget,
        proof: Proof,
        worthwhile: float,
        used_s: Callable[[], float],
        launches: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._launches = launches
        self._references = references
        self._candidate_spec = candidate_spec
        self._budget = budget
        self._proof = proof
        self._store = desk.store
        self._progress = desk.progress
        self._interrupts = desk.interrupts
        self._used_s = used_s
        self._confirming = Confirming(
            desk,
            [spec.key for spec in references],
            self.spec,
            blocks=proof.confirm_blocks,
            worthwhile=worthwhile,
        )
        self._soaking = Soaking(desk, gaps_s=proof.gaps_s)

    def begin(self, before: Confirmation | None, search: Ending) -> Confirmation | None:
        """Choose who is confirmed after a search; None where nobody ever was.

        Args:
            before: The confirmation before this one.
            search: Why the search ended.
        """
        if self._proof.confirm_blocks:
            self._progress.note(f"The search is over: {search.why}.")
        records = self._store.records()
        found_more = bool(records) and records[-1].errand.purpose is Purpose.SEARCH
        if before is not None and not found_more and before.over_at is None:
            return before  # nothing is new: it stands, or goes on
        following = self._next_round(before)
        if following is not None or before is None or not found_more:
            return following or before
        return self._confirming.pass_over(before, self._searched_for)

    def run(self, confirmation: Confirmation | None, search: Ending) -> Ending:
        """Confirm, and put the winner to the test; who fails it makes way for the next."""
        stopped = Ending("asked to stop", interrupted=True)
        ending = search
        while True:
            if confirmation is not None:
                confirmation = self._confirming.run(confirmation, self._left_to_confirm_s)
                if confirmation is None:
                    return stopped
                if self._nobody_is_left(confirmation) and (following := self._next_round(confirmation)):
                    confirmation = following
                    continue
                ending = self._said_of(confirmation) or search
            winner = winner_of(confirmation, self._store.records()) if self._proof.soak else None
            if winner is None:
                return ending
            tested = self._test(winner, 0 if confirmation is None else confirmation.round)
            if self._interrupts.requested:
                return stopped
            why = disqualified(self._store.records()).get(winner)
            if why is None:
                survived = (
                    tested is not None and tested.outcome is not None and tested.outcome.kind in _SURVIVED
                )
                said = "and it survived" if survived else "but it could not be put to the test"
                return Ending(f"{ending.why}, {said}")
            self._progress.note(f"Disqualified: {self.spec(winner).label}: {why}")

    @property
    def _searched_for(self) -> tuple[float | None, int | None]:
        """What the search had."""
        return self._budget.seconds, self._budget.launches

    def _next_round(self, before: Confirmation | None) -> Confirmation | None:
        """Begin to confirm who is next; None where that is not wanted or not possible."""
        if self._proof.confirm_blocks == 0:
            return None
        refused = self._confirming.begin(
            self._searched_for,
            seconds=self._left_to_confirm_s(),
            before=before,
            launches=self._launches(),
        )
        if refused is not None:
            self._progress.note(f"Not confirmed: {refused}.")
            return None
        return self._store.confirmation()

    def _nobody_is_left(self, confirmation: Confirmation) -> bool:
        """Whether every leader has failed in it, or did not survive what came after."""
        gone = gone_of(confirmation, self._store.records())
        return all(leader in gone for leader in confirmation.plan.leaders)

    def _said_of(self, confirmation: Confirmation) -> Ending | None:
        """Why it ended; None where it says nothing."""
        if confirmation.over_at is not None:
            return Ending("the time to confirm is over") if confirmation.over_at else None
        known = result_of(confirmation, self._store.records()) is not None
        return Ending("the winner is confirmed") if known else None

    def _test(self, winner: str, confirmation_round: int) -> TrialRecord | None:
        """Soak it, and let it endure; the trial that says most of it, None where none was made."""
        spec = self.spec(winner)
        soaked = self._soaking.soak(spec, confirmation_round, lambda: self._budget.left_s(self._used_s()))
        if soaked is None or soaked.outcome is None or soaked.outcome.kind is not Kind.NONE:
            return soaked
        seconds, asked = self._endurance_s(winner), self._proof.endure_s
        if seconds <= (LEAST_ENDURANCE_S if asked is None else min(LEAST_ENDURANCE_S, asked * _NEARLY_DONE)):
            return soaked
        self._progress.note(
            f"Endurance: the winner works on for {seconds / 60:.0f} min. The result stands; Ctrl-C ends this and "
            "keeps everything."
        )
        return self._soaking.endure(spec, confirmation_round, seconds)

    def _endurance_s(self, winner: str) -> float:
        """What is left of what was asked for, or of the budget."""
        if self._proof.endure_s is None:
            return self._budget.left_s(self._used_s()) or 0.0
        endured_s = sum(
            record.result.soak.seconds
            for record in self._store.records()
            if record.key == winner
            and record.errand.purpose is Purpose.ENDURE
            and record.result is not None
            and record.result.soak is not None
        )
        return max(self._proof.endure_s - endured_s, 0.0)

    def spec(self, key: str) -> LaunchSpec:
        """How what has that key is launched."""
        for spec in self._references:
            if spec.key == key:
                return spec
        found = next(r.candidate for r in self._store.records() if r.key == key and r.candidate is not None)
        return self._candidate_spec(found)

    def _left_to_confirm_s(self) -> float | None:
        """Seconds that confirming may still take, so that a soak can follow; None for any."""
        left_s = self._budget.left_s(self._used_s())
        if left_s is None or not self._proof.soak:
            return left_s
        records = self._store.records()
        confirmed = {record.key for record in records if record.errand.purpose is Purpose.CONFIRM}
        soak_s = LEAST_LAUNCHES * max((last_wall_s(key, records) or 0.0 for key in confirmed), default=0.0)
        return max(min(left_s * _CONFIRMED_PART, left_s - soak_s), 0.0)
