"""What every record of a study offers, wherever it lies: trials, and notes on the study as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from tuner.core.identity import StudyIdentity
from tuner.core.memory.learned import Observation
from tuner.core.memory.words import NotLaunched
from tuner.core.objective import Goal
from tuner.core.trial import SEARCHING
from tuner.search.confirmation.state import Confirmation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.trial import FrozenTrial

    from tuner.core.launch import LaunchSpec
    from tuner.core.trial import Errand, TrialRecord
    from tuner.search.dimensions import Coordinate, Dimension
    from tuner.study.sampler import TpeSampler

IDENTITY, FACTS, FORMAT = "identity", "facts", "format"
NOT_LAUNCHED, ESTIMATES = "not_launched", "estimates"
_MEMORY_BEFORE, _CONFIRMATION, _CANARY = "memory_before", "confirmation", "canary"


class Taken(Exception):  # noqa: N818 - no error: something else is launched instead
    """Another worker was first: the launch is not wanted any more."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a trial's folder goes with it to readers on other hosts."""

    log_tail: str = ""
    needs_mib: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    """What memory it was expected to need, by device and part."""


NOTHING_KEPT = Kept()


def always(_records: Sequence[TrialRecord]) -> bool:
    """A launch that is wanted whatever others do."""
    return True


class TrialStore(ABC):
    """The record of one study."""

    # --- where it lies

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, for people; without credentials."""

    @abstractmethod
    def _note(self, name: str) -> Any:  # noqa: ANN401 - plain JSON
        """A note on the study; None where there is none."""

    @abstractmethod
    def _set_note(self, name: str, value: Any) -> None:  # noqa: ANN401 - as above
        """Replace a note on the study."""

    @abstractmethod
    def _trials(self) -> Sequence[FrozenTrial]:
        """All trials, in order."""

    # --- trials

    @abstractmethod
    def begin(
        self,
        spec: LaunchSpec,
        place: Sequence[tuple[Dimension, Coordinate]],
        *,
        argv: Sequence[str],
        environment: Mapping[str, str],
        errand: Errand = SEARCHING,
        still_wanted: Callable[[Sequence[TrialRecord]], bool] = always,
    ) -> int:
        """Record that a trial is about to be launched, in one commit.

        Args:
            spec: What is launched.
            place: Where it lies in the search space; empty for a reference.
            argv: The command as a user would run it.
            environment: Environment variables that belong to the command.
            errand: What it is launched for.
            still_wanted: Whether it is, after all trials that were begun before it, by whomever.

        Returns:
            Its number.

        Raises:
            Taken: Another worker was first.
            StudyError: It cannot be recorded.
        """

    @abstractmethod
    def finish(self, record: TrialRecord, kept: Kept = NOTHING_KEPT) -> None:
        """Record how a trial ended.

        Args:
            record: The trial, with its result.
            kept: What readers on other hosts are to see of its folder.

        Raises:
            StudyError: It has ended already, or the record has no result.
        """

    @abstractmethod
    def records(self) -> list[TrialRecord]:
        """All trials that count here, in order."""

    @abstractmethod
    def unsettled(self) -> list[TrialRecord]:
        """Trials of ours that an earlier run has not brought to their end here."""

    @abstractmethod
    def sampler(self, seed: int) -> TpeSampler:
        """Optuna's TPE over what the search has launched so far."""

    def used_s(self) -> float:
        """Seconds that its trials have taken so far."""
        return sum(record.wall_s for record in self.records())

    def look_after_others(self) -> None:  # noqa: B027 - most have none
        """Settle what other workers have left behind."""

    # --- notes

    @property
    def identity(self) -> StudyIdentity:
        """What the study was made with."""
        return StudyIdentity.from_json(self._note(IDENTITY) or {})

    @property
    def facts(self) -> Mapping[str, Any]:
        """What readers of the study need to know beside its trials."""
        return cast("Mapping[str, Any]", self._note(FACTS))

    @property
    def goal(self) -> Goal:
        """What it is made for."""
        return Goal.from_json(self.facts.get("workload", {}).get("goal"))

    def note_not_launched(self, rows: Sequence[NotLaunched]) -> None:
        """Record which candidates were not launched because they cannot fit: all of them, each time."""
        self._set_note(NOT_LAUNCHED, [row.to_json() for row in rows])

    def not_launched(self) -> tuple[NotLaunched, ...]:
        """Candidates that were not launched because they cannot fit."""
        return tuple(NotLaunched.from_json(row) for row in self._note(NOT_LAUNCHED) or ())

    def note_estimates(self, estimates_tok_s: Mapping[int, float]) -> None:
        """Record what trials make by all of them together, by number."""
        self._set_note(ESTIMATES, {str(number): estimate for number, estimate in estimates_tok_s.items()})

    def note_confirmation(self, confirmation: Confirmation) -> None:
        """Record where the confirmation stands."""
        self._set_note(_CONFIRMATION, confirmation.to_json())

    def confirmation(self) -> Confirmation | None:
        """Where the confirmation stands; None where none has begun."""
        document = self._note(_CONFIRMATION)
        return None if document is None else Confirmation.from_json(document)

    def note_canary(self, canary: Confirmation) -> None:
        """Record where the canary of a retune stands; a confirmation may follow it."""
        self._set_note(_CANARY, canary.to_json())

    def canary(self) -> Confirmation | None:
        """Where the canary of a retune stands; None where there is none."""
        document = self._note(_CANARY)
        return None if document is None else Confirmation.from_json(document)

    def memory_before(self, known: Sequence[Observation]) -> tuple[Observation, ...]:
        """What was known of the rig's memory when the study began; `known` if it begins now.

        A resumed study goes on from the same knowledge, and so proposes the same.
        """
        rows = self._note(_MEMORY_BEFORE)
        if rows is None:
            self._set_note(_MEMORY_BEFORE, [one.to_json() for one in known])
            return tuple(known)
        return tuple(Observation.from_json(row) for row in rows)

    def known_memory(self) -> tuple[Observation, ...]:
        """What was known of the rig's memory when the study began, for readers: nothing is recorded."""
        return tuple(Observation.from_json(row) for row in self._note(_MEMORY_BEFORE) or ())

    def clock(self) -> dict[int, tuple[float, float | None]]:
        """When each trial began and ended, by number, in seconds since 1970; no end for one that runs."""
        return {
            trial.number: (
                trial.datetime_start.timestamp(),
                None if trial.datetime_complete is None else trial.datetime_complete.timestamp(),
            )
            for trial in self._trials()
            if trial.datetime_start is not None
        }
