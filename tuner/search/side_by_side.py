"""Winners of several studies launched in turns: which is fastest, and by how much.

A comparison is a confirmation whose arms are studies: each arm is one study's winner, launched in that study. The
launches of all, in the order in which they were made, are shown to the rules of a confirmation as its trials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.launch import trial_key
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.search.confirmation.state import complete_blocks, next_step, scores_of, standing_now
from tuner.search.confirmation.verdict import compare, order_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.search.confirmation.interval import Interval
    from tuner.search.confirmation.state import Confirmation, Failed, Wanted
    from tuner.search.confirmation.verdict import Standing


@dataclass(frozen=True, slots=True)
class Arm:
    """What is launched for a name."""

    study: str
    key: str
    """Of its candidate or reference."""


def arm_key(name: str) -> str:
    """What a comparison calls a name."""
    return trial_key(None, name)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A comparison and the launches that were made for it.

    Args:
        comparison: Where it stands; its arms are `arm_key` of names.
        arms: What is launched for each name.
        studies: All trials of each study, by name.
    """

    comparison: Confirmation
    arms: Mapping[str, Arm]
    studies: Mapping[str, Sequence[TrialRecord]]

    @property
    def launches(self) -> list[TrialRecord]:
        """The comparison's launches in the order in which they were made, each as a trial of its arm."""
        names = {arm_key(name): name for name in self.arms}
        found = []
        for key in self.comparison.plan.arms:
            arm = self.arms[names[key]]
            for record in self.studies[arm.study]:
                errand = record.errand
                is_of = errand.purpose is Purpose.COMPARE and errand.round == self.comparison.round
                if is_of and record.key == arm.key:
                    found.append((names[key], record))
        found.sort(key=lambda row: (self._place(row[0], row[1].errand.block), row[1].number))
        return [
            replace(
                record,
                number=number,
                candidate=None,
                reference=name,
                errand=Errand(Purpose.CONFIRM, record.errand.round, record.errand.block),
            )
            for number, (name, record) in enumerate(found)
        ]

    def next_step(self) -> Wanted | Failed | Standing:
        """What to do next: a launch, an arm that has to be given up, or nothing more since all is known."""
        return next_step(self.comparison, self.launches)

    def blocks(self) -> int:
        """Blocks in which all was launched that had to be."""
        return complete_blocks(self.comparison, self.launches)

    def tied(self) -> tuple[str, ...]:
        """Names that no other is clearly faster than; none as long as nothing is known."""
        found = standing_now(self.comparison, self.launches)
        if found is None:
            return ()
        return tuple(name for name in self.arms if arm_key(name) in found[0].active_leaders)

    def rate_tok_s(self, name: str) -> float | None:
        """Mean over an arm's launches; None where none was measured."""
        rates = [one.rate for one in scores_of(self.comparison, self.launches) if one.arm == arm_key(name)]
        return sum(rates) / len(rates) if rates else None

    def versus(self, name: str, other: str) -> Interval | None:
        """How many times as fast a name is as another; None where too few blocks have both."""
        launches = self.launches
        found = standing_now(self.comparison, launches)
        if found is None:
            return None
        standing, final = found
        scores = scores_of(self.comparison, launches)
        return compare(
            arm_key(name), arm_key(other), scores, self.comparison.plan, standing.look, final=final
        )

    def _place(self, name: str, block: int) -> tuple[int, int]:
        return block, order_of(self.comparison.plan.arms, block).index(arm_key(name))
