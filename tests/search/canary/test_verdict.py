"""What a canary says: by launches in turns where what was is still there, else by its records."""

import random
from math import exp
from types import MappingProxyType

import pytest

from tests.search.canary.test_arms import BEST, DEFAULT, NEW, OLD, UP
from tests.support.trials import a_launch, ended, measured
from tuner.core.outcome import Kind
from tuner.core.trial import SEARCHING, Errand, Purpose, TrialRecord
from tuner.search.canary.arms import Arms, plan_of
from tuner.search.canary.verdict import Judged, Verdict, changes_of, judged, rates_of
from tuner.search.confirmation.state import Confirmation

ARMS = Arms(BEST, OLD, (DEFAULT,), (UP,))
THEN = {BEST: (60.0, 60.6, 59.4), DEFAULT: (30.0, 30.3, 29.7), UP: (57.0, 57.6, 56.4)}


def canary(arms: Arms = ARMS, **out: str) -> Confirmation:
    plan = plan_of(arms, launches=24, blocks=3, worthwhile=0.01)
    return Confirmation(1, plan, (None, 24), out=MappingProxyType({BEST: out["best"]} if out else {}))


def launched(rates: dict[str, float], *, noise: float = 0.004, drift: float = 0.0) -> list[TrialRecord]:
    """Three blocks; noise is a launch's, drift what a block loses against the one before."""
    dice = random.Random(5)  # noqa: S311 - no secret
    rows = [(key, block) for block in range(3) for key in rates]
    return [
        a_launch(
            number,
            key,
            measured(rates[key] * exp(dice.gauss(0, noise) - drift * block)),
            Errand(Purpose.CANARY, 1, block),
        )
        for number, (key, block) in enumerate(rows)
    ]


def verdict(
    rates: dict[str, float],
    *,
    arms: Arms = ARMS,
    noise: float = 0.004,
    drift: float = 0.0,
    said: str | None = None,
    **out: str,
) -> Judged:
    one = canary(arms, **out)
    changes = changes_of(arms, rates_of(one, launched(rates, noise=noise, drift=drift), THEN))
    return judged(arms, one, changes, worthwhile=0.01, other_answers=said)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (60.0, Verdict.UNCHANGED),
        (42.0, Verdict.SLOWER),
        (66.0, Verdict.FASTER),
    ],
)
def test_the_best_is_held_against_itself_as_it_was(now: float, expected: Verdict) -> None:
    found = verdict({BEST: now, OLD: 60.0})
    assert found.verdict is expected
    change = found.changes[BEST]
    assert change.in_turns
    assert change.interval is not None
    assert change.interval.low < now / 60 < change.interval.high
    assert change.interval.blocks == 3


def test_a_difference_that_is_certain_and_does_not_matter_is_no_change() -> None:
    found = verdict({BEST: 59.8, OLD: 60.0}, noise=1e-5)
    interval = found.changes[BEST].interval
    assert interval is not None
    assert interval.significant
    assert found.verdict is Verdict.UNCHANGED


def test_noise_is_no_change() -> None:
    assert verdict({BEST: 58.0, OLD: 60.0}, noise=0.04).verdict is Verdict.UNCHANGED


def test_drift_of_the_rig_is_none_of_the_build() -> None:
    assert verdict({BEST: 60.0, OLD: 60.0}, drift=0.1).verdict is Verdict.UNCHANGED


def test_a_rig_that_is_slower_than_it_was_is_none_of_the_build_either() -> None:
    """Today everything makes 80 % of what the records say, the old build too."""
    found = verdict({BEST: 48.0, OLD: 48.0, DEFAULT: 24.0, UP: 45.6})
    assert found.verdict is Verdict.UNCHANGED
    for key in (DEFAULT, UP):
        assert found.changes[key].ratio == pytest.approx(1.0, abs=0.02)


def test_others_are_held_against_how_they_compared_with_the_best() -> None:
    """They were not launched as they were; the best is slower now, and they are not."""
    found = verdict({BEST: 42.0, OLD: 60.0, DEFAULT: 30.0, UP: 57.0})
    assert found.changes[DEFAULT].ratio == pytest.approx(1.0, abs=0.02)
    assert found.changes[UP].ratio == pytest.approx(1.0, abs=0.02)
    assert all(change.in_turns for change in found.changes.values())
    interval = found.changes[DEFAULT].interval
    assert interval is not None
    assert interval.low < 1 < interval.high


def test_without_what_it_was_the_records_stand_for_it() -> None:
    arms = Arms(BEST, None, (DEFAULT,))
    found = verdict({BEST: 42.0, DEFAULT: 30.0}, arms=arms)
    assert found.verdict is Verdict.SLOWER
    assert not found.changes[BEST].in_turns
    assert found.changes[BEST].ratio == pytest.approx(0.7, rel=0.02)


def test_one_that_cannot_be_launched_is_broken_and_says_why() -> None:
    found = verdict({OLD: 60.0}, best="unsupported in load: not supported")
    assert (found.verdict, found.why) == (Verdict.BROKEN, "unsupported in load: not supported")


def test_other_answers_count_more_than_speed() -> None:
    found = verdict({BEST: 60.0, OLD: 60.0}, said="0.1 nats off")
    assert (found.verdict, found.why) == (Verdict.OUTPUT_CHANGED, "0.1 nats off")
    assert verdict({OLD: 60.0}, said="0.1 nats off", best="degraded").verdict is Verdict.OUTPUT_CHANGED


def test_too_few_launches_say_nothing() -> None:
    assert verdict({DEFAULT: 30.0}).verdict is Verdict.UNKNOWN


def test_what_was_launched_outside_of_turns_is_held_against_the_level() -> None:
    """A launch that was made afterwards to find the cause has no block of its own."""
    one = canary()
    records = launched({BEST: 42.0, OLD: 60.0})
    records.append(a_launch(len(records), NEW, measured(45.0), SEARCHING))
    changes = changes_of(ARMS, rates_of(one, records, {**THEN, NEW: (50.0,)}))
    assert changes[NEW].ratio == pytest.approx(0.9, abs=0.02)
    assert changes[NEW].interval is None


def test_launches_that_failed_or_soaked_are_no_rates() -> None:
    records = launched({BEST: 60.0, OLD: 60.0})
    records.append(a_launch(50, BEST, ended(Kind.CRASHED), Errand(Purpose.CANARY, 1, 3)))
    records.append(a_launch(51, BEST, measured(10.0), Errand(Purpose.SOAK, 1)))
    assert set(rates_of(canary(), records, THEN)[BEST].now) == {0, 1, 2}
