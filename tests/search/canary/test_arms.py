"""Who takes part in a canary, and who goes on after the first block, within the launches that there are."""

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.known_proofs import PLAIN
from tests.support.trials import a_launch, ended, measured
from tuner.core.launch import LaunchResult
from tuner.core.outcome import Kind
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.search.canary.arms import SOAK_LAUNCHES, Arms, after_first_block, least_launches, plan_of
from tuner.search.confirmation.state import Confirmation, Failed, Wanted, next_step

BEST, NEW, UP, MORE = (PLAIN.with_options({"ubatch-size": size}).key() for size in (512, 128, 256, 64))
OLD, DEFAULT, OWN = "reference:previous", "reference:engine-default", "reference:current"
REFERENCES = ((DEFAULT,), (DEFAULT, OWN))
FULL = Arms(BEST, OLD, (DEFAULT,), (NEW, UP, MORE))


def begun(arms: Arms, launches: int, blocks: int = 3) -> Confirmation:
    return Confirmation(1, plan_of(arms, launches=launches, blocks=blocks, worthwhile=0.01), (None, launches))


def played(
    arms: Arms, launches: int, rates: dict[str, float | LaunchResult], blocks: int = 3
) -> tuple[Confirmation, list[TrialRecord]]:
    """A canary to its end."""
    canary = begun(arms, launches, blocks)
    records: list[TrialRecord] = []
    while True:
        canary = after_first_block(canary, arms, records, launches=launches)
        step = next_step(canary, records)
        if isinstance(step, Failed):
            canary = replace(canary, out=MappingProxyType({**canary.out, step.arm: step.why}))
            continue
        if not isinstance(step, Wanted):
            return canary, records
        said = rates[step.arm]
        result = said if isinstance(said, LaunchResult) else measured(said)
        records.append(a_launch(len(records), step.arm, result, Errand(Purpose.CANARY, 1, step.block)))


def counts(records: list[TrialRecord]) -> dict[str, int]:
    return {key: sum(one.key == key for one in records) for key in dict.fromkeys(one.key for one in records)}


EQUAL: dict[str, float | LaunchResult] = dict.fromkeys((BEST, OLD, DEFAULT, OWN, NEW, UP, MORE), 50.0)


def test_the_best_leads_and_what_it_was_is_a_reference() -> None:
    plan = plan_of(FULL, launches=24, blocks=3, worthwhile=0.01)
    assert plan.leaders == (BEST, NEW, UP, MORE)
    assert plan.references == (OLD, DEFAULT)
    assert plan.blocks == 3


def test_twelve_launches_leave_room_for_one_beside() -> None:
    assert plan_of(FULL, launches=12, blocks=3, worthwhile=0.0).leaders == (BEST, NEW)


def test_few_launches_mean_fewer_blocks_and_none_beside() -> None:
    plan = plan_of(FULL, launches=7, blocks=3, worthwhile=0.0)
    assert (plan.leaders, plan.blocks) == ((BEST,), 2)
    with pytest.raises(ValueError, match="do not show"):
        plan_of(FULL, launches=least_launches(FULL) - 1, blocks=3, worthwhile=0.0)


def test_a_best_that_was_a_reference_is_launched_once_a_block() -> None:
    arms = Arms(DEFAULT, OLD, (DEFAULT,))
    assert plan_of(arms, launches=12, blocks=3, worthwhile=0.0).arms == (DEFAULT, OLD)


def test_an_unchanged_build_takes_three_launches_a_side() -> None:
    _, records = played(Arms(BEST, OLD, (DEFAULT,), (UP,)), 12, EQUAL | {UP: 30.0, DEFAULT: 25.0})
    assert counts(records) == {BEST: 3, UP: 1, OLD: 3, DEFAULT: 3}


def test_who_is_clearly_slower_in_the_first_block_is_left_out() -> None:
    canary, records = played(FULL, 24, EQUAL | {UP: 30.0, NEW: 51.0, MORE: 49.0})
    assert canary.out == {UP: "it makes 60% of the best of before in the first block"}
    assert counts(records)[NEW] == counts(records)[MORE] == 3


def test_who_is_far_behind_another_is_left_out_too() -> None:
    """What was best is not what it is measured by where it has become slow itself."""
    canary, _ = played(FULL, 24, EQUAL | {BEST: 30.0, NEW: 52.0, UP: 40.0, MORE: 52.0})
    assert canary.out == {UP: "it makes 77% of another in the first block"}


def test_a_reference_gives_way_to_who_may_be_the_new_best() -> None:
    canary, records = played(Arms(BEST, OLD, (DEFAULT,), (NEW,)), 12, EQUAL | {NEW: 60.0})
    assert counts(records) == {BEST: 3, NEW: 3, OLD: 3, DEFAULT: 2}
    assert canary.closed == {DEFAULT: 2}
    assert len(records) == 12 - SOAK_LAUNCHES


def test_where_the_best_has_become_slower_launches_are_kept_to_find_out_why() -> None:
    arms = Arms(BEST, OLD, (DEFAULT,), (UP,))
    canary, records = played(arms, 12, EQUAL | {BEST: 35.0, UP: 35.0})
    assert canary.out == {UP: "too few launches are left to compare it"}
    assert len(records) <= 12 - SOAK_LAUNCHES - 2


def test_a_best_that_does_not_run_leaves_the_others() -> None:
    canary, records = played(FULL, 24, EQUAL | {BEST: ended(Kind.UNSUPPORTED)})
    assert canary.out[BEST].startswith("unsupported")
    assert counts(records)[BEST] == 1
    assert counts(records)[NEW] == 3


def test_without_what_it_was_the_others_have_its_launches() -> None:
    arms = Arms(BEST, None, (DEFAULT,), (NEW, UP))
    _, records = played(arms, 12, EQUAL)
    assert counts(records) == {BEST: 3, NEW: 3, DEFAULT: 2, UP: 3}


@given(
    st.integers(4, 30),
    st.integers(2, 6),
    st.sampled_from(
        [
            Arms(BEST, old, refs, FULL.beside[:many])
            for old in (OLD, None)
            for refs in REFERENCES
            for many in range(4)
        ]
    ),
    st.lists(st.floats(20, 80), min_size=7, max_size=7),
)
def test_a_canary_and_a_soak_stay_within_their_launches(
    launches: int, blocks: int, arms: Arms, rates: list[float]
) -> None:
    if launches < least_launches(arms):
        return
    _, records = played(arms, launches, dict(zip(EQUAL, rates, strict=True)), blocks)
    made = counts(records)
    assert len(records) + SOAK_LAUNCHES <= launches
    assert made[BEST] == made.get(OLD, made[BEST])
    assert made[BEST] >= 2


def test_a_canary_that_goes_on_decides_as_it_would_have() -> None:
    canary, records = played(FULL, 24, EQUAL | {UP: 30.0})
    again = begun(FULL, 24)
    for many in range(len(records) + 1):
        again = after_first_block(again, FULL, records[:many], launches=24)
    assert again.out == canary.out
    assert again.closed == canary.closed
