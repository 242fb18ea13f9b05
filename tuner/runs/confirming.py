"""Leaders and references launched again, interleaved, until it is known which is fastest and by how much."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.launch import reference_name
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.runs.launching import last_wall_s
from tuner.runs.measuring import Measuring
from tuner.search.confirmation.leaders import affordable, leaders_of
from tuner.search.confirmation.state import (
    Confirmation,
    Failed,
    Wanted,
    complete_blocks,
    next_step,
)
from tuner.search.confirmation.verdict import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.launch import LaunchSpec
    from tuner.runs.desk import Desk


_DOING = {Purpose.CONFIRM: "confirming", Purpose.CANARY: "canary"}


class Confirming:
    """The confirmation of a study, new or resumed.

    Args:
        desk: What every part of a run works with.
        references: Keys of what the leaders are compared with.
        spec_of: How what has a key is launched.
        blocks: Launches a side at most.
        worthwhile: A difference that is worth while, as a part.
        purpose: What its launches are made for.
        screened: Is asked before each launch who goes on.
    """

    def __init__(
        self,
        desk: Desk,
        references: Sequence[str],
        spec_of: Callable[[str], LaunchSpec],
        *,
        blocks: int,
        worthwhile: float,
        purpose: Purpose = Purpose.CONFIRM,
        screened: Callable[[Confirmation, Sequence[TrialRecord]], Confirmation] = lambda one, _records: one,
    ) -> None:
        self._purpose = purpose
        self._screened = screened
        self._references = references
        self._spec_of = spec_of
        self._blocks = blocks
        self._worthwhile = worthwhile
        self._measuring = Measuring(desk)
        self._store = desk.store
        self._progress = desk.progress
        self._interrupts = desk.interrupts
        self._changed = desk.changed

    def begin(
        self,
        budget: tuple[float | None, int | None],
        *,
        seconds: float | None,
        before: Confirmation | None,
        launches: int | None = None,
    ) -> str | None:
        """Choose who is confirmed, and in how many blocks.

        Args:
            budget: What the search had.
            seconds: How much time there is for it; None for any.
            launches: How many launches there are for it; None for any.
            before: The confirmation before this one; who failed in it is not chosen again.

        Returns:
            Why there is none; None where it has begun.
        """
        records = self._store.records()
        out = {} if before is None else {a: why for a, why in before.out.items() if a not in self._references}
        leaders = leaders_of(records, out)
        references = [key for key in self._references if last_wall_s(key, records) is not None]
        if not leaders:
            return "there is no candidate to confirm"
        if not references and len(leaders) == 1:
            return "there is nothing to compare the only candidate with"
        many, blocks = affordable(
            [1.0] * len(leaders), [1.0] * len(references), blocks=self._blocks, seconds=launches
        )
        if many == 0:
            return "too few launches are left to confirm anything"
        many, blocks = affordable(
            [_expected_s(record.key, records) for record in leaders[:many]],
            [seconds_ for key in references if (seconds_ := last_wall_s(key, records)) is not None],
            blocks=blocks,
            seconds=seconds,
        )
        if many == 0 or (blocks < 2):
            return "what is left of the time is too short to confirm anything"
        plan = Plan(
            tuple(record.key for record in leaders[:many]), tuple(references), blocks, self._worthwhile
        )
        confirmation = Confirmation(
            round=1 if before is None else before.round + 1,
            plan=plan,
            budget=budget,
            out=MappingProxyType(out),
        )
        self._note(confirmation)
        self._progress.note(
            f"Confirming {_counted(many, 'leader')} and {_counted(len(references), 'reference')}, "
            f"in turns, up to {blocks} launches each."
        )
        return None

    def pass_over(self, before: Confirmation, budget: tuple[float | None, int | None]) -> Confirmation:
        """A round that does not take place after a search: what that has found wins, but for who failed before."""
        passed_over = replace(before, round=before.round + 1, budget=budget, over_at=0, ended=True)
        self._note(passed_over)
        return passed_over

    def run(self, confirmation: Confirmation, left_s: Callable[[], float | None]) -> Confirmation | None:
        """Launch until all is known, or the time is over; None where somebody asked to stop.

        Args:
            confirmation: Where it stands.
            left_s: Seconds that it may still take; None for any.

        Raises:
            TunerError: The run cannot go on.
        """
        while not confirmation.ended:
            if self._interrupts.requested:
                return None
            records = self._store.records()
            confirmation = self._left_of(confirmation, records)
            step = next_step(confirmation, records)
            if isinstance(step, Failed):
                confirmation = replace(
                    confirmation, out=MappingProxyType({**confirmation.out, step.arm: step.why})
                )
                self._note(confirmation)
                self._progress.note(f"Not confirmed: {self._label(step.arm)}: {step.why}")
                continue
            if not isinstance(step, Wanted):
                return self._ended(confirmation)
            left = left_s()
            if left is not None and _expected_s(step.arm, records) >= left:
                return self._ended(replace(confirmation, over_at=complete_blocks(confirmation, records)))
            made = self._measuring.make(
                self._spec_of(step.arm),
                f"{_DOING[self._purpose]}, {step.block + 1} of at most {confirmation.plan.blocks}",
                Errand(self._purpose, confirmation.round, step.block),
                limit_s=left,
            )
            if made is None:
                return None
        return confirmation

    def _left_of(self, confirmation: Confirmation, records: Sequence[TrialRecord]) -> Confirmation:
        """The confirmation of those who go on."""
        left = self._screened(confirmation, records)
        if left != confirmation:
            self._note(left)
            for arm in left.out.keys() - confirmation.out.keys():
                self._progress.note(f"Not launched again: {self._label(arm)}: {left.out[arm]}")
        return left

    def _ended(self, confirmation: Confirmation) -> Confirmation:
        ended = replace(confirmation, ended=True)
        self._note(ended)
        return ended

    def _note(self, confirmation: Confirmation) -> None:
        if self._purpose is Purpose.CANARY:
            self._store.note_canary(confirmation)
        else:
            self._store.note_confirmation(confirmation)
        self._changed()

    def _label(self, arm: str) -> str:
        spec = self._spec_of(arm)
        return spec.label if spec.candidate is not None else reference_name(spec.reference)


def _expected_s(key: str, records: Sequence[TrialRecord]) -> float:
    """What a launch takes now; one that was given up was never measured, and takes what others do."""
    last_s = last_wall_s(key, records)
    if last_s is not None:
        return last_s
    return median([record.wall_s for record in records if record.score is not None] or [0.0])


def _counted(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"
