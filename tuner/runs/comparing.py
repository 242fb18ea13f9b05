"""The winners of a race side by side: launched in turns until it is known which is fastest, and by how much."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.launch import CURRENT, reference_name
from tuner.core.pareto import worth_having
from tuner.core.trial import Errand, Purpose
from tuner.runs.launching import last_wall_s
from tuner.search.confirmation.leaders import affordable
from tuner.search.confirmation.state import Confirmation, Failed, Wanted
from tuner.search.confirmation.verdict import LEAST_BLOCKS, Plan
from tuner.search.side_by_side import Arm, SideBySide, arm_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.pareto import Worth
    from tuner.runs.race import Race, Racer

#: The part of the time left that comparing may take, where endurance follows.
_PART = 0.75
#: What the user's own command is called among the winners.
YOURS = reference_name(CURRENT)


class Comparing:
    """The comparison of a race, new or resumed.

    Args:
        race: The studies, their time and state.
        blocks: Launches a side, at most; 0 for none.
        worthwhile: A difference that is worth while, as a part.
    """

    def __init__(self, race: Race, *, blocks: int, worthwhile: float) -> None:
        self._race = race
        self._blocks = blocks
        self._worthwhile = worthwhile

    def run(self) -> bool:
        """Launch until all is known, or the time is over; whether nobody asked to stop.

        Raises:
            TunerError: The run cannot go on.
        """
        race = self._race
        if race.state.comparison is None and not self._begin():
            return True
        while (comparison := race.state.comparison) is not None and not comparison.ended:
            if race.interrupts.requested:
                return False
            beside = side_by_side(race)
            step = beside.next_step()
            if isinstance(step, Failed):
                race.note(f"Not compared: {self._name(step.arm)}: {step.why}")
                out = MappingProxyType({**comparison.out, step.arm: step.why})
                race.now(replace(race.state, comparison=replace(comparison, out=out)))
            elif not isinstance(step, Wanted):
                self._end(comparison)
            elif not self._launch(step, comparison, beside):
                return False
        return True

    def winner(self) -> str | None:
        """The study whose winner is the winner of all; None where nothing was measured.

        Of those that no other is clearly faster than, one that no other of them beats in context and answers; of
        these the fastest. What a comparison said of a configuration that did not survive does not count.
        """
        race = self._race
        worths = {one.name: one.runner(over=True).best for one in race.left if one.winner() is not None}
        tied: Sequence[str] = ()
        speeds = {name: worth.speed_tok_s or 0.0 for name, worth in worths.items()}
        if race.state.comparison is not None:
            beside, valid = side_by_side(race), still_compared(race)
            speeds |= {name: rate for name in valid if (rate := beside.rate_tok_s(name)) is not None}
            tied = [name for name in beside.tied() if name in valid]
        names = list(tied or worths)
        if not tied:
            return max(names, key=speeds.__getitem__, default=None)
        alike = [_as_fast(worths[name]) for name in names]
        return max((names[place] for place in worth_having(alike)), key=speeds.__getitem__)

    def _begin(self) -> bool:
        """Choose who is compared, and in how many blocks; whether there is a comparison."""
        race = self._race
        contenders = {one.name: Arm(one.name, key) for one in race.left if (key := one.winner()) is not None}
        if self._blocks < LEAST_BLOCKS or len(contenders) < LEAST_BLOCKS:
            return False
        ranked = sorted(contenders, key=self._speed, reverse=True)
        yours = [Arm(one.name, key) for one in race.racers if (key := one.users_command()) is not None]
        left = race.left_s
        many, blocks = affordable(
            [self._expected_s(contenders[name]) for name in ranked],
            [self._expected_s(arm) for arm in yours],
            blocks=self._blocks,
            seconds=None if left is None else left * _PART,
        )
        if many < LEAST_BLOCKS:
            race.note("Not compared side by side: what is left of the time is too short.")
            return False
        names = ranked[:many]
        references = [YOURS] if yours and yours[0] not in contenders.values() else []
        plan = Plan(
            tuple(arm_key(name) for name in names),
            tuple(arm_key(name) for name in references),
            blocks,
            self._worthwhile,
        )
        arms = {name: contenders[name] for name in names} | dict(zip(references, yours, strict=False))
        comparison = Confirmation(race.state.rounds + 1, plan, race.state.budget)
        race.now(
            replace(race.state, arms=MappingProxyType(arms), comparison=comparison, rounds=comparison.round)
        )
        race.note(
            f"Side by side: {', '.join([*names, *references])}, in turns, up to {blocks} launches each."
        )
        return True

    def _launch(self, step: Wanted, comparison: Confirmation, beside: SideBySide) -> bool:
        """Launch once, or end it where time is short; whether nobody asked to stop."""
        race, arm, left = self._race, beside.arms[self._name(step.arm)], self._race.left_s
        if left is not None and self._expected_s(arm) >= left:
            self._end(replace(comparison, over_at=beside.blocks()))
            return True
        why = f"side by side, {step.block + 1} of at most {comparison.plan.blocks}"
        errand = Errand(Purpose.COMPARE, comparison.round, step.block)
        return race.racer(arm.study).measure(arm.key, why, errand, left) is not None

    def _end(self, comparison: Confirmation) -> None:
        self._race.now(replace(self._race.state, comparison=replace(comparison, ended=True)))

    def _expected_s(self, arm: Arm) -> float:
        return last_wall_s(arm.key, self._race.racer(arm.study).records()) or 0.0

    def _speed(self, name: str) -> float:
        return speed_of(self._race.racer(name))

    def _name(self, key: str) -> str:
        return next(name for name in self._race.state.arms if arm_key(name) == key)


def speed_of(racer: Racer) -> float:
    """What a study's best makes; 0 where nothing was measured."""
    return racer.runner(over=True).best.speed_tok_s or 0.0


def side_by_side(race: Race) -> SideBySide:
    """A race's comparison with its launches.

    Raises:
        ValueError: It has none.
    """
    if race.state.comparison is None:
        raise ValueError("nothing was compared side by side")
    studies = {racer.name: racer.records() for racer in race.racers}
    return SideBySide(race.state.comparison, race.state.arms, studies)


def still_compared(race: Race) -> frozenset[str]:
    """Names of studies whose winner is still the one that was launched beside the others."""
    return frozenset(
        racer.name
        for racer in race.left
        if (arm := race.state.arms.get(racer.name)) is not None and racer.winner() == arm.key
    )


def _as_fast(worth: Worth) -> Worth:
    """The same but for its speed, for those that do not differ in it for certain."""
    return replace(worth, speed_tok_s=1.0)
