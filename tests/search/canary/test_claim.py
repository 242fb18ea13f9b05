"""A result is held to what it claims."""

import copy
import random
from math import exp
from typing import Any

import pytest

from tests.search.canary.test_arms import BEST, DEFAULT
from tests.search.canary.test_verdict import canary, launched
from tests.support.trials import a_launch, measured
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.search.canary.claim import Claim, claim_of, measured_ratio, until_known
from tuner.search.confirmation.interval import Interval
from tuner.search.confirmation.state import Confirmation, Wanted, next_step
from tuner.search.confirmation.verdict import Plan

DOCUMENT: dict[str, Any] = {
    "winner": {"reference": None},
    "references": [
        {"name": "current", "winner_ratio": None},
        {"name": "engine-default", "winner_ratio": 2.0},
    ],
    "confirmation": {
        "references": [{"name": "engine-default", "ratio": 2.0, "interval": [1.9, 2.1], "significant": True}]
    },
}


def interval(ratio: float, half: float = 1.03) -> Interval:
    return Interval(ratio, ratio / half, ratio * half, 3, 0.05)


def claim(change: dict[str, Any] | None = None) -> Claim | None:
    return claim_of({**copy.deepcopy(DOCUMENT), **(change or {})})


def test_the_confirmed_ratio_is_the_claim() -> None:
    found = claim()
    assert found is not None
    assert (found.reference, found.ratio) == ("engine-default", 2.0)
    assert (found.low, found.high) == pytest.approx((1.9, 2.1), rel=0.01)


def test_a_ratio_that_was_never_confirmed_is_one_with_some_doubt() -> None:
    found = claim({"confirmation": None})
    assert found is not None
    assert found.ratio == 2.0
    assert found.low == pytest.approx(2 / 1.05)


@pytest.mark.parametrize("where", ["both", "ratio", "references"])
def test_a_claim_that_was_raised_somewhere_is_the_larger_one(where: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    if where != "ratio":
        document["references"][1]["winner_ratio"] *= 1.2
    if where != "references":
        document["confirmation"]["references"][0]["ratio"] *= 1.2
    found = claim_of(document)
    assert found is not None
    assert found.ratio == pytest.approx(2.4)
    assert not found.holds(interval(2.0))


@pytest.mark.parametrize(
    ("now", "expected"), [(2.0, True), (1.93, True), (2.6, True), (1.8, False), (1.0, False)]
)
def test_a_claim_holds_unless_launches_are_below_it_for_certain(now: float, *, expected: bool) -> None:
    found = claim()
    assert found is not None
    assert found.holds(interval(now)) is expected


def test_launches_that_differ_much_refute_little_and_say_so() -> None:
    found = claim()
    assert found is not None
    assert found.holds(interval(1.5, half=1.5))
    assert found.shortfall(interval(1.5, half=1.5)) == pytest.approx(0.5, abs=0.05)
    assert found.shortfall(interval(2.0)) == pytest.approx(0.06, abs=0.01)
    assert found.shortfall(interval(3.0)) == 0


@pytest.mark.parametrize(
    ("ratio", "noise", "blocks"),
    [(2.0, 0.004, 3), (1.3, 0.004, 3), (2.0, 0.15, 8)],
)
def test_it_is_measured_until_it_is_known(ratio: float, noise: float, blocks: int) -> None:
    """Three launches a side where they agree, up to eight where they differ."""
    found = claim()
    assert found is not None
    one = Confirmation(1, Plan((BEST,), (DEFAULT,), 8, 0.01, every_block=True), (None, 17))
    records: list[TrialRecord] = []
    dice = random.Random(3)  # noqa: S311 - no secret
    while True:
        one = until_known(found, one, records, best=BEST, reference=DEFAULT)
        step = next_step(one, records)
        if not isinstance(step, Wanted):
            break
        rate = {BEST: 30.0 * ratio, DEFAULT: 30.0}[step.arm] * exp(dice.gauss(0, noise))
        errand = Errand(Purpose.CANARY, 1, step.block)
        records.append(a_launch(len(records), step.arm, measured(rate), errand))
    assert len(records) == 2 * blocks


def test_an_interval_at_an_early_look_is_wider() -> None:
    """All looks together may err in 5 % of measurements."""
    records = launched({BEST: 60.0, DEFAULT: 30.0})
    plan = Plan((BEST,), (DEFAULT,), 8, 0.01, every_block=True)
    early = measured_ratio(Confirmation(1, plan, (None, 17)), records, best=BEST, reference=DEFAULT)
    whole = measured_ratio(canary(), records, best=BEST, reference=DEFAULT)
    assert early is not None
    assert whole is not None
    assert early.low < whole.low


@pytest.mark.parametrize(
    "change",
    [
        {"references": []},
        {"references": [{"name": "engine-default", "winner_ratio": None}], "confirmation": None},
        {
            "winner": {"reference": "engine-default"},
            "references": [{"name": "engine-default", "winner_ratio": 1.0}],
        },
    ],
)
def test_a_winner_that_was_compared_with_nothing_claims_nothing(change: dict[str, Any]) -> None:
    assert claim(change) is None


def test_the_measured_ratio_is_by_blocks() -> None:
    records = launched({BEST: 60.0, DEFAULT: 30.0}, drift=0.2)
    found = measured_ratio(canary(), records, best=BEST, reference=DEFAULT)
    assert found is not None
    assert found.ratio == pytest.approx(2.0, rel=0.02)
    assert found.blocks == 3
    assert measured_ratio(canary(), records[:2], best=BEST, reference=DEFAULT) is None
