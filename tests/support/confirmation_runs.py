"""Confirmations played with noise: launches by launch, look by look, decided by the real functions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

from tuner.search.confirmation.interval import paired
from tuner.search.confirmation.looks import looks
from tuner.search.confirmation.verdict import (
    Plan,
    Score,
    Standing,
    choose,
    compare,
    order_of,
    runner_up,
    standing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.search.confirmation.interval import Interval

TOK_S = 40.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A confirmation to play many times.

    Args:
        name: For people.
        leaders: True rates, 1 is the best.
        references: The same.
        noise: Standard deviation of the logarithm of a launch's rate.
        drift: What the rig loses from the first launch to the last that may be, a fraction, in a straight line.
        blocks: At most.
        worthwhile: A difference that is worth while, a fraction.
        timed: Whether time runs out after a number of blocks that is drawn, 2 at least.
        naive: Whether the real rule is left for the naive one: look after each block, until 95 % exclude 1.
    """

    name: str
    leaders: tuple[float, ...]
    references: tuple[float, ...] = ()
    noise: float = 0.01
    drift: float = 0.0
    blocks: int = 8
    worthwhile: float = 0.01
    timed: bool = False
    naive: bool = False

    @property
    def rates(self) -> dict[str, float]:
        """The true rate of each arm."""
        leaders = {f"leader{place}": rate for place, rate in enumerate(self.leaders)}
        return leaders | {f"reference{place}": rate for place, rate in enumerate(self.references)}


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said of the winner and another arm."""

    interval: Interval | None
    truth: float
    """The true ratio of the winner to it."""

    @property
    def holds(self) -> bool:
        """Whether the interval covers the truth; no interval claims nothing."""
        return self.interval is None or self.interval.low <= self.truth <= self.interval.high

    @property
    def found(self) -> bool:
        """Whether a true advantage of the winner was seen."""
        return self.truth > 1 and self.interval is not None and self.interval.low > 1


@dataclass(frozen=True, slots=True)
class Played:
    """How one confirmation ended."""

    runner_up: Claim | None
    leaders: tuple[Claim, ...]
    """Against each other leader."""
    references: tuple[Claim, ...]
    blocks: int
    launches: int
    early: bool
    """Whether it stopped before its time."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All that is said of the winner."""
        return self.leaders + self.references


@dataclass(frozen=True, slots=True)
class Summary:
    """Many of them. Shares are fractions; None where there is nothing to count."""

    runs: int
    covers_runner_up: float | None
    covers_reference: float | None
    covers_all: float
    finds: float | None
    """Where one leader is ahead of the others: how often it wins and its lead over one of them is seen."""
    finds_runner_up: float | None
    """The same for whichever comes closest to it."""
    finds_all: float | None
    """The same for all others at once."""
    blocks: float
    launches: float
    early: float


def simulate(scenario: Scenario, runs: int, seed: int) -> Summary:
    """Play a scenario so many times."""
    rng = random.Random(f"{seed} {scenario.name}")  # noqa: S311 - no secret
    play = play_naively if scenario.naive else play_once
    played = [play(scenario, rng) for _ in range(runs)]
    ahead = played if scenario.leaders.count(max(scenario.leaders)) == 1 else []
    return Summary(
        runs=runs,
        covers_runner_up=_share([one.runner_up.holds for one in played if one.runner_up is not None]),
        covers_reference=_share([claim.holds for one in played for claim in one.references[:1]]),
        covers_all=sum(all(claim.holds for claim in one.claims) for one in played) / runs,
        finds=_share([claim.found for one in ahead for claim in one.leaders]),
        finds_runner_up=_share([one.runner_up.found for one in ahead if one.runner_up is not None]),
        finds_all=_share([all(claim.found for claim in one.leaders) for one in ahead]),
        blocks=sum(one.blocks for one in played) / runs,
        launches=sum(one.launches for one in played) / runs,
        early=sum(one.early for one in played) / runs,
    )


def play_once(scenario: Scenario, rng: random.Random) -> Played:
    """One confirmation, as a run would go through it."""
    rates = scenario.rates
    plan = _plan(scenario)
    end = rng.randint(2, scenario.blocks) if scenario.timed else scenario.blocks
    scores: list[Score] = []
    now = Standing(0, plan.leaders, still_open=plan.arms)
    final = False
    for planned in looks(plan.blocks):
        final = planned > end
        for block in range(now.look, min(planned, end)):
            _launch(scenario, now.still_open, block, scores, rng)
        now = standing(plan, scores, min(planned, end), final=final)
        if now.done:
            break
    winner = choose(now.active_leaders, scores, {}, dict.fromkeys(plan.leaders, 0))
    second = runner_up(plan, scores, winner)

    def claim(other: str) -> Claim:
        interval = compare(winner, other, scores, plan, now.look, final=final)
        return Claim(interval, rates[winner] / rates[other])

    return Played(
        runner_up=claim(second) if second is not None else None,
        leaders=tuple(claim(leader) for leader in plan.leaders if leader != winner),
        references=tuple(claim(reference) for reference in plan.references),
        blocks=now.look,
        launches=len(scores),
        early=now.look < end,
    )


def play_naively(scenario: Scenario, rng: random.Random) -> Played:
    """Look after each block, and stop when a plain 95 % interval of the first two leaders excludes 1."""
    plan, rates = _plan(scenario), scenario.rates
    first, second = plan.leaders
    scores: list[Score] = []
    interval: Interval | None = None
    for block in range(scenario.blocks):
        _launch(scenario, plan.arms, block, scores, rng)
        by_arm = {arm: [log(score.rate) for score in scores if score.arm == arm] for arm in plan.arms}
        interval = paired([a - b for a, b in zip(by_arm[first], by_arm[second], strict=True)], 0.05)
        if interval is not None and interval.significant:
            break
    claim = Claim(interval, rates[first] / rates[second])
    used = len(scores) // 2
    return Played(claim, (claim,), (), used, len(scores), early=used < scenario.blocks)


def _plan(scenario: Scenario) -> Plan:
    leaders = tuple(arm for arm in scenario.rates if arm.startswith("leader"))
    references = tuple(arm for arm in scenario.rates if arm.startswith("reference"))
    return Plan(leaders, references, scenario.blocks, scenario.worthwhile)


def _launch(
    scenario: Scenario, arms: Sequence[str], block: int, scores: list[Score], rng: random.Random
) -> None:
    rates = scenario.rates
    loss = log(1 - scenario.drift) / max(1, len(rates) * scenario.blocks - 1)
    for arm in order_of(arms, block):
        order = len(scores)
        rate = TOK_S * rates[arm] * exp(loss * order + rng.gauss(0, scenario.noise))
        scores.append(Score(arm, block, order, rate))


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
