"""What a confirmation launches next, and what it says when it is cut off, runs out of time or loses an arm."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import exp
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tests.support.trials import PlayedConfirmation, a_launch, confirm, ended, measured, unfit
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult
from tuner.core.outcome import MEASURED, Kind
from tuner.core.trial import Errand, Purpose
from tuner.search.confirmation.state import (
    Confirmation,
    Failed,
    Wanted,
    complete_blocks,
    gone_of,
    launches_of,
    next_step,
    scores_of,
    standing_now,
)
from tuner.search.confirmation.verdict import Plan, Standing, order_of, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.core.trial import TrialRecord

A, B, C = (Candidate.of({"ubatch-size": size}).key() for size in (128, 256, 1024))
REF, OWN = "reference:engine-default", "reference:current"
ALL = (A, B, C, REF)
CRASHED = ended(Kind.CRASHED)


def begun(
    leaders: tuple[str, ...] = (A, B, C), references: tuple[str, ...] = (REF,), blocks: int = 8
) -> Confirmation:
    return Confirmation(1, Plan(leaders, references, blocks, 0.0), (3600.0, None))


def at(rates: Mapping[str, float]) -> Callable[[Wanted, int], LaunchResult]:
    """Launches at these rates; equal rates are never told apart."""

    def launch(step: Wanted, _tries: int) -> LaunchResult:
        wobble = random.Random(f"{step.arm} {step.block}").gauss(0, 0.003)  # noqa: S311 - no secret
        return measured(rates[step.arm] * exp(wobble))

    return launch


EQUAL = at(dict.fromkeys((*ALL, OWN), 40.0))


def but(
    launch: Callable[[Wanted, int], LaunchResult], changes: Mapping[tuple[str, int], tuple[LaunchResult, ...]]
) -> Callable[[Wanted, int], LaunchResult]:
    """The same, but an arm's tries in a block end otherwise, as far as that is said."""

    def changed(step: Wanted, tries: int) -> LaunchResult:
        otherwise = changes.get((step.arm, step.block), ())
        return otherwise[tries] if tries < len(otherwise) else launch(step, tries)

    return changed


def arms_of(played: PlayedConfirmation, block: int) -> list[str]:
    return [step.arm for step in played.asked if step.block == block]


# --- what is launched


def test_all_is_launched_forth_and_back_in_each_block() -> None:
    played = confirm(begun(blocks=4), EQUAL)
    assert played.asked == tuple(Wanted(arm, block) for block in range(4) for arm in order_of(ALL, block))
    assert arms_of(played, 1) == [REF, C, B, A]
    end = next_step(played.confirmation, played.records)
    assert isinstance(end, Standing)
    assert (end.look, end.done) == (4, True)


def test_after_a_look_only_what_is_open_is_launched_on() -> None:
    played = confirm(begun(), at({A: 40, B: 40, C: 30, REF: 20}))
    assert [len(arms_of(played, block)) for block in range(8)] == [4, 4, 4, 4, 2, 2, 2, 2]
    assert arms_of(played, 4) == [A, B]
    assert arms_of(played, 5) == [B, A]


def test_it_ends_as_soon_as_all_is_known() -> None:
    played = confirm(begun(), at({A: 40, B: 35, C: 30, REF: 20}))
    end = next_step(played.confirmation, played.records)
    assert isinstance(end, Standing)
    assert (end.look, end.active_leaders) == (4, (A,))
    assert len(played.records) == 16


def test_leaders_alone_can_be_confirmed() -> None:
    played = confirm(begun((A, B), ()), at({A: 40, B: 30}))
    assert len(played.records) == 8
    assert confirm(begun((A, B), ()), EQUAL).asked[-1] == Wanted(A, 7)


def test_a_confirmation_of_two_blocks_is_looked_at_once() -> None:
    assert len(confirm(begun(blocks=2), at({A: 40, B: 35, C: 30, REF: 20})).records) == 8


def test_only_the_launches_of_its_own_round_count() -> None:
    rows = [
        a_launch(number, A, measured(40.0), errand)
        for number, errand in enumerate(
            [
                Errand(),
                Errand(Purpose.CONFIRM, 2, 0),
                Errand(Purpose.SOAK, 1),
                Errand(Purpose.ENDURE, 1),
                Errand(Purpose.CONFIRM, 1, 0),
            ]
        )
    ]
    assert launches_of(begun(), rows) == rows[4:]
    assert next_step(begun(), rows[:4]) == Wanted(A, 0)
    assert next_step(begun(), rows) == Wanted(B, 0)


def test_scores_are_what_was_measured_by_the_number_of_the_trial() -> None:
    played = confirm(begun(blocks=2), but(EQUAL, {(B, 0): (CRASHED,)}), first_number=70)
    scores = scores_of(begun(blocks=2), played.records)
    assert [score.order for score in scores] == [70, 72, 73, 74, 75, 76, 77, 78]
    assert [(score.arm, score.block) for score in scores[:3]] == [(A, 0), (B, 0), (C, 0)]
    assert scores[0].rate == pytest.approx(played.records[0].score)


# --- what has to be launched again


@pytest.mark.parametrize(
    ("kind", "tries"),
    [
        (Kind.CRASHED, 2),
        (Kind.HUNG, 2),
        (Kind.DISTURBED, 3),
        (Kind.STOPPED, 3),
        (Kind.OUT_OF_MEMORY, 1),
        (Kind.DEGRADED, 1),
    ],
)
def test_who_fails_is_launched_again_as_its_end_allows_then_given_up(kind: Kind, tries: int) -> None:
    result = measured(40.0, kind) if kind is Kind.DEGRADED else ended(kind)
    played = confirm(begun(), but(EQUAL, {(B, 1): (result,) * 9}))
    assert arms_of(played, 1) == [REF, C, *[B] * tries, A]
    assert B in played.failed
    assert kind.value in played.failed[B]
    assert all(B not in arms_of(played, block) for block in range(2, 8))
    assert isinstance(next_step(played.confirmation, played.records), Standing)


def test_why_somebody_was_given_up_is_the_line_that_says_so() -> None:
    played = confirm(begun(blocks=2), but(EQUAL, {(B, 0): (CRASHED, CRASHED)}))
    assert played.failed == {B: "crashed: a line about crashed"}


def test_a_launch_that_generated_nothing_says_so() -> None:
    nothing = LaunchResult(MEASURED)
    played = confirm(begun(blocks=2), but(EQUAL, {(B, 0): (nothing,)}))
    assert played.failed == {B: "it generated nothing"}


def test_each_kind_of_end_and_each_block_has_its_own_count() -> None:
    disturbed = ended(Kind.DISTURBED)
    mixed = (disturbed, CRASHED, disturbed)
    played = confirm(begun(), but(EQUAL, {(B, 1): mixed, (B, 2): mixed, (B, 3): (CRASHED,)}))
    assert played.failed == {}
    assert [arms_of(played, block).count(B) for block in range(5)] == [1, 4, 4, 2, 1]


def test_a_leader_that_may_not_win_is_given_up_but_a_reference_is_not() -> None:
    degraded = (measured(40.0, Kind.DEGRADED),)
    played = confirm(begun(blocks=4), but(EQUAL, {(REF, 0): degraded, (REF, 3): degraded}))
    assert played.failed == {}
    assert arms_of(played, 3) == [REF, C, B, A]
    played = confirm(begun(blocks=4), but(EQUAL, {(C, 1): degraded}))
    assert set(played.failed) == {C}


def test_a_trial_that_is_cut_off_is_not_waited_for() -> None:
    rows = [a_launch(0, A, None, Errand(Purpose.CONFIRM, 1, 0))]
    assert next_step(begun(), rows) == Failed(A, "it was cut off")
    assert complete_blocks(begun(), rows) == 0


def test_a_reference_that_fails_leaves_the_others_to_go_on() -> None:
    oom = ended(Kind.OUT_OF_MEMORY)
    played = confirm(begun((A, B), (REF, OWN)), but(EQUAL, {(REF, 0): (oom,)}))
    assert set(played.failed) == {REF}
    assert arms_of(played, 1) == [OWN, B, A]


def test_without_a_leader_references_are_launched_no_more() -> None:
    oom = (ended(Kind.OUT_OF_MEMORY),)
    played = confirm(begun(), but(EQUAL, {(A, 0): oom, (B, 0): oom, (C, 1): oom}))
    assert [step.arm for step in played.asked] == [A, B, C, REF, REF, C]
    assert complete_blocks(played.confirmation, played.records) == 0
    assert standing_now(played.confirmation, played.records) is None


# A is clearly faster than c, b wobbles too much to say; so a alone drops c at the first look.
WOBBLY = {A: (40.0, 40.0), B: (38.0, 35.0), C: (36.0, 37.0)}


def wobbly(step: Wanted, _tries: int) -> LaunchResult:
    return measured(WOBBLY[step.arm][step.block % 2])


def test_whom_only_the_failed_one_beat_is_launched_again() -> None:
    confirmation = begun((A, B, C), ())
    before = standing_now(*_started(confirmation, wobbly, 12))
    assert before is not None
    assert before[0].dropped == {C: A}
    played = confirm(confirmation, but(wobbly, {(A, 5): (CRASHED, CRASHED)}))
    assert set(played.failed) == {A}
    asked = [(step.arm, step.block) for step in played.asked[12:]]
    assert asked[:4] == [(A, 4), (B, 4), (B, 5), (A, 5)]
    assert asked[4:] == [(A, 5), (C, 4), (C, 5), (B, 6), (C, 6), (C, 7), (B, 7)]


def test_a_block_is_incomplete_while_somebody_is_launched_again_in_it() -> None:
    launch = but(wobbly, {(A, 5): (CRASHED, CRASHED), (C, 4): (CRASHED, CRASHED)})
    confirmation, rows = _started(begun((A, B, C), ()), launch, 17)
    assert set(confirmation.out) == {A}
    assert complete_blocks(confirmation, rows) == 4
    rows.append(a_launch(17, C, CRASHED, Errand(Purpose.CONFIRM, 1, 4)))
    rows.append(a_launch(18, C, CRASHED, Errand(Purpose.CONFIRM, 1, 4)))
    assert isinstance(next_step(confirmation, rows), Failed)
    assert complete_blocks(confirmation, rows) == 4


def _started(
    confirmation: Confirmation, launch: Callable[[Wanted, int], LaunchResult], launches: int
) -> tuple[Confirmation, list[TrialRecord]]:
    played = confirm(confirmation, launch, launches=launches)
    return played.confirmation, list(played.records)


# --- a study that is cut off


def _rough(seed: int) -> Callable[[Wanted, int], LaunchResult]:
    """Launches of which some fail, each for its own reason."""
    rates = {A: 40.0, B: 39.5, C: 38.0, REF: 39.0, OWN: 30.0}
    kinds = [Kind.CRASHED, Kind.DISTURBED, Kind.STOPPED, Kind.OUT_OF_MEMORY, Kind.DEGRADED]

    def launch(step: Wanted, tries: int) -> LaunchResult:
        rng = random.Random(f"{seed} {step.arm} {step.block} {tries}")  # noqa: S311 - no secret
        rate = rates[step.arm] * exp(rng.gauss(0, 0.01))
        if rng.random() > 0.15:
            return measured(rate)
        kind = rng.choices(kinds, weights=(4, 4, 2, 1, 1))[0]
        return measured(rate, kind) if kind is Kind.DEGRADED else ended(kind)

    return launch


def _resumed(confirmation: Confirmation, records: tuple[TrialRecord, ...]) -> Wanted | Standing:
    """The next launch of a run that goes on from what is on disk."""
    confirmation = Confirmation.from_json(json.loads(json.dumps(confirmation.to_json())))
    while isinstance(step := next_step(confirmation, records), Failed):
        confirmation = replace(confirmation, out=MappingProxyType({**confirmation.out, step.arm: step.why}))
    return step


@PROPERTY
@given(st.integers(0, 10**6), st.sampled_from([(), (REF,), (REF, OWN)]), st.sampled_from([2, 4, 5, 8, 12]))
def test_a_study_cut_at_any_point_goes_on_with_the_same_launches(
    seed: int, references: tuple[str, ...], blocks: int
) -> None:
    played = confirm(begun(references=references, blocks=blocks), _rough(seed))
    outs = [*played.out_before, played.failed]
    steps = [*played.asked, next_step(played.confirmation, played.records)]
    for n, step in enumerate(steps):
        for out in (outs[max(n - 1, 0)], outs[n]):  # cut before, or after, it was noted who is out
            cut = replace(played.confirmation, out=MappingProxyType(out))
            assert _resumed(cut, played.records[:n]) == step


@PROPERTY
@given(st.integers(0, 10**6))
def test_nobody_is_launched_twice_in_a_block_without_a_reason(seed: int) -> None:
    played = confirm(begun(), _rough(seed))
    last: dict[Wanted, TrialRecord] = {}
    for step, record, out in zip(played.asked, played.records, played.out_before, strict=True):
        assert step.arm not in out
        assert step not in last or last[step].score is None
        last[step] = record
    complete = [complete_blocks(played.confirmation, played.records[:n]) for n in range(len(played.records))]
    assert complete == sorted(complete)


# --- what is known meanwhile, and when time is over


def test_before_the_first_look_nothing_is_known() -> None:
    played = confirm(begun(), EQUAL)
    assert standing_now(begun(), played.records[:15]) is None
    assert standing_now(begun(), played.records[:16]) == (
        standing(begun().plan, scores_of(begun(), played.records), 4),
        False,
    )


def test_between_looks_the_last_one_holds() -> None:
    played = confirm(begun(), EQUAL)
    scores = scores_of(begun(), played.records)
    for launches, look in ((16, 4), (23, 4), (24, 6), (31, 6), (32, 8)):
        now = standing_now(begun(), played.records[:launches])
        assert now == (standing(begun().plan, scores[:launches], look), False)


def test_blocks_are_complete_once_all_was_launched_that_is_open() -> None:
    played = confirm(begun(), at({A: 40, B: 40, C: 30, REF: 20}))
    complete = [complete_blocks(begun(), played.records[:n]) for n in range(len(played.records) + 1)]
    assert complete == [n // 4 for n in range(16)] + [4 + n // 2 for n in range(9)]


@pytest.mark.parametrize("launches", range(1, 32))
def test_when_time_is_over_what_is_complete_is_looked_at_once_more(launches: int) -> None:
    played = confirm(begun(), EQUAL, launches=launches)
    n = complete_blocks(begun(), played.records)
    assert n == launches // 4
    over = replace(begun(), over_at=n, ended=True)
    now = standing_now(over, played.records)
    if n < 2:
        assert now is None
    else:
        scores = [score for score in scores_of(begun(), played.records) if score.block < n]
        assert now == (standing(begun().plan, scores, n, final=True), True)
        assert now[0].done


def test_one_block_says_nothing() -> None:
    played = confirm(begun(), at({A: 40, B: 30, C: 20, REF: 10}), launches=4)
    assert standing_now(replace(begun(), over_at=1), played.records) is None


# --- a winner that did not survive


def test_who_was_disqualified_drops_nobody() -> None:
    played = confirm(begun(), at({A: 40, B: 35, C: 30, REF: 20}))
    now = standing_now(played.confirmation, played.records)
    assert now is not None
    assert now[0].active_leaders == (A,)
    now = standing_now(played.confirmation, [*played.records, *unfit(A)])
    assert now is not None
    assert now[0].active_leaders == (B,)
    now = standing_now(played.confirmation, [*played.records, *unfit(A, B, C)])
    assert now is not None
    assert now[0].active_leaders == ()


@pytest.mark.parametrize("purpose", [Purpose.SOAK, Purpose.ENDURE])
def test_a_soak_that_it_did_not_survive_disqualifies(purpose: Purpose) -> None:
    played = confirm(begun(), at({A: 40, B: 35, C: 30, REF: 20}))
    for kind, active in ((Kind.CRASHED, (B,)), (Kind.STOPPED, (A,)), (Kind.NONE, (A,))):
        result = ended(kind) if kind is not Kind.NONE else measured(40.0)
        soaked = [*played.records, a_launch(99, A, result, Errand(purpose, 1))]
        now = standing_now(played.confirmation, soaked)
        assert now is not None
        assert now[0].active_leaders == active


def test_disqualifying_asks_for_no_launches_and_loses_none() -> None:
    """With b gone, all would have been known at the first look; what was launched since still counts."""
    played = confirm(begun(), at({A: 40, B: 40, C: 30, REF: 38.5}))
    assert complete_blocks(played.confirmation, played.records) == 8
    records = [*played.records, *unfit(B)]
    assert isinstance(next_step(played.confirmation, records), Standing)
    now = standing_now(played.confirmation, records)
    assert now is not None
    assert (now[0].look, now[0].active_leaders) == (8, (A,))


# --- as it is kept


def test_a_confirmation_comes_back_from_its_document() -> None:
    full = Confirmation(
        round=3,
        plan=Plan((A, B), (REF, OWN), 12, 0.015, every_block=True),
        budget=(None, 40),
        out=MappingProxyType({B: "crashed"}),
        over_at=5,
        ended=True,
        closed=MappingProxyType({REF: 2}),
    )
    for one in (begun(), full):
        assert Confirmation.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_a_document_without_a_field_is_refused() -> None:
    document = begun().to_json()
    assert (document.pop("closed"), document.pop("every_block")) == ({}, False)
    assert Confirmation.from_json(document) == begun()  # older studies have neither
    for name in document:
        with pytest.raises(KeyError):
            Confirmation.from_json({key: value for key, value in document.items() if key != name})


def test_who_is_out_and_who_was_disqualified_are_gone() -> None:
    one = replace(begun(), out=MappingProxyType({A: "x"}))
    assert gone_of(begun(), []) == frozenset()
    assert gone_of(one, unfit(B)) == {A, B}
