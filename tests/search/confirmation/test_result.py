"""What a confirmation says in the end: who won, by how much, and what stood out."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt
from statistics import fmean, stdev
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from scipy import stats

from tests.support.trials import PlayedConfirmation, a_launch, a_record, confirm, ended, measured, unfit
from tuner.core.candidate import Candidate
from tuner.core.options import BASE_OPTIONS
from tuner.core.outcome import Kind
from tuner.core.trial import Errand, Purpose
from tuner.search.confirmation.result import Result, headroom_mib, plainness, result_of, winner_of
from tuner.search.confirmation.state import Confirmation, Wanted
from tuner.search.confirmation.verdict import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.launch import LaunchResult
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord

PLAIN = Candidate.of(BASE_OPTIONS)
A, B, C = (PLAIN.with_options({"ubatch-size": size}).key() for size in (128, 256, 1024))
#: As plain as can be, and with two options more than a, b and c.
PLAINEST = PLAIN.key()
FANCY = PLAIN.with_options({"ubatch-size": 64, "cache-type-k": "q8_0", "cache-type-v": "q8_0"}).key()
REF, OWN = "reference:engine-default", "reference:current"
#: What a block does to all, and what it does to one arm or another; neither tells them apart.
BLOCK = (1.0, 0.98, 1.01, 0.99, 1.0, 0.97, 1.02, 0.99)
WOBBLE = {
    A: (1.003, 0.997, 1.001, 0.999, 1.002, 0.998, 1.001, 0.999),
    B: (0.998, 1.002, 1.003, 0.997, 0.999, 1.001, 1.002, 0.998),
    C: (1.001, 1.002, 0.997, 1.0, 0.999, 1.003, 0.998, 1.0),
}
TOK_S = dict[str, float]


def begun(leaders: Sequence[str], references: Sequence[str] = (REF,), blocks: int = 4) -> Confirmation:
    return Confirmation(1, Plan(tuple(leaders), tuple(references), blocks, 0.0), (None, None))


def rate_of(arm: str, block: int, rates: TOK_S) -> float:
    return rates[arm] * BLOCK[block % 8] * WOBBLE.get(arm, WOBBLE[A][::-1])[block % 8]


def played(
    confirmation: Confirmation,
    rates: TOK_S,
    *,
    free_mib: Mapping[str, int] | None = None,
    instead: Mapping[tuple[str, int], Sequence[LaunchResult]] | None = None,
    launches: int | None = None,
) -> PlayedConfirmation:
    """A confirmation at these rates; `instead` says how an arm's first tries in a block end otherwise."""

    def launch(step: Wanted, tries: int) -> LaunchResult:
        otherwise = (instead or {}).get((step.arm, step.block), ())
        if tries < len(otherwise):
            return otherwise[tries]
        mib = (free_mib or {}).get(step.arm)
        free = {} if mib is None else {"CUDA0": mib, "CUDA1": mib + 900}
        return replace(measured(rate_of(step.arm, step.block, rates)), free_mib=MappingProxyType(free))

    return confirm(confirmation, launch, launches=launches, first_number=50)


def result(one: PlayedConfirmation) -> Result:
    found = result_of(one.confirmation, one.records)
    assert found is not None
    return found


def by_hand(a: str, b: str, rates: TOK_S, blocks: Sequence[int], alpha: float) -> tuple[float, float, float]:
    """The ratio, and what Student's t allows it to be."""
    logs = [log(rate_of(a, block, rates) / rate_of(b, block, rates)) for block in blocks]
    half = float(stats.t.ppf(1 - alpha / 2, len(logs) - 1)) * stdev(logs) / sqrt(len(logs))
    return exp(fmean(logs)), exp(fmean(logs) - half), exp(fmean(logs) + half)


# --- the ratios


def test_the_fastest_wins_by_ratios_as_worked_out_by_hand() -> None:
    rates = {A: 36.0, B: 40.0, C: 30.0, REF: 20.0, OWN: 25.0}
    found = result(played(begun([A, B, C], [REF, OWN]), rates))
    assert (found.winner, found.tied_with, found.tie_broken_by) == (B, (), None)
    assert found.runner_up is not None
    assert found.runner_up.arm == A
    assert found.runner_up.interval is not None
    one = found.runner_up.interval
    expected = by_hand(B, A, rates, range(4), 0.05 / 2)  # the winner against either of two others
    assert (one.ratio, one.low, one.high) == pytest.approx(expected)
    assert [versus.arm for versus in found.references] == [REF, OWN]
    for versus in found.references:
        assert versus.interval is not None
        one = versus.interval
        expected = by_hand(B, versus.arm, rates, range(4), 0.05 / 3)  # the winner is one of three
        assert (one.ratio, one.low, one.high) == pytest.approx(expected)
    assert found.references[0].interval is not None
    assert found.references[0].interval.ratio == pytest.approx(2.0, rel=0.01)


def test_what_was_made_is_counted() -> None:
    found = result(played(begun([A, B]), {A: 36.0, B: 40.0, REF: 20.0}))
    assert (found.blocks, found.launches, found.time_over) == (4, 12, False)
    assert found.drift is not None
    assert found.drift.launches == 12
    assert (found.repeated, found.outliers) == ((), ())


def test_a_leader_alone_has_no_runner_up_but_its_references() -> None:
    found = result(played(begun([A]), {A: 40.0, REF: 20.0}))
    assert (found.winner, found.runner_up) == (A, None)
    assert [versus.arm for versus in found.references] == [REF]


def test_without_references_there_is_a_runner_up() -> None:
    found = result(played(begun([A, B], []), {A: 40.0, B: 30.0}))
    assert (found.winner, found.references) == (A, ())
    assert found.runner_up is not None
    assert found.runner_up.arm == B


def test_before_the_first_look_there_is_no_result() -> None:
    one = played(begun([A, B]), {A: 36.0, B: 40.0, REF: 20.0}, launches=11)
    assert result_of(one.confirmation, one.records) is None
    assert result_of(one.confirmation, []) is None


# --- ties


EVEN = {A: 40.0, B: 40.0, C: 40.0, PLAINEST: 40.0, FANCY: 40.0, REF: 20.0}


def test_of_equals_the_one_that_leaves_most_memory_wins() -> None:
    found = result(played(begun([A, B]), EVEN | {A: 40.05}, free_mib={A: 600, B: 900}))
    assert (found.winner, found.tied_with, found.tie_broken_by) == (B, (A,), "memory")


def test_then_the_plainest() -> None:
    found = result(
        played(begun([A, FANCY, PLAINEST]), EVEN | {A: 40.05}, free_mib={A: 900, FANCY: 900, PLAINEST: 700})
    )
    assert (found.winner, found.tie_broken_by) == (PLAINEST, "plainness")
    assert found.tied_with == (A, FANCY)


def test_then_the_fastest() -> None:
    found = result(played(begun([A, B]), EVEN | {B: 40.05}, free_mib={A: 900, B: 700}))
    assert (found.winner, found.tied_with, found.tie_broken_by) == (B, (A,), "speed")
    assert found.runner_up is not None
    assert found.runner_up.interval is not None
    assert not found.runner_up.interval.significant


def test_what_is_said_to_break_a_tie_is_what_left_nobody_else() -> None:
    """C has too little memory, but it is by its plainness that the winner beats the one with the most."""
    found = result(played(begun([PLAINEST, FANCY, C]), EVEN, free_mib={PLAINEST: 1800, FANCY: 2000, C: 1000}))
    assert (found.winner, found.tie_broken_by) == (PLAINEST, "plainness")
    # fancy is out for its memory, though it leaves hardly less than b
    found = result(played(begun([FANCY, A, B]), EVEN | {B: 40.05}, free_mib={A: 2000, B: 1800, FANCY: 1700}))
    assert (found.winner, found.tie_broken_by) == (B, "speed")
    # the plainest is out for its memory, though it leaves hardly less than the winner
    found = result(played(begun([FANCY, A, PLAINEST]), EVEN, free_mib={FANCY: 2000, A: 1800, PLAINEST: 1700}))
    assert (found.winner, found.tie_broken_by) == (A, "plainness")


def test_memory_that_is_unknown_breaks_no_tie() -> None:
    found = result(played(begun([A, B]), EVEN | {B: 40.05}, free_mib={A: 900}))
    assert (found.winner, found.tie_broken_by) == (B, "speed")


# --- references that are faster


def test_a_reference_that_is_faster_for_certain_wins() -> None:
    rates = {A: 36.0, B: 34.0, REF: 40.0, OWN: 30.0}
    found = result(played(begun([A, B], [REF, OWN]), rates))
    assert (found.winner, found.tied_with, found.tie_broken_by) == (REF, (), None)
    assert found.runner_up is not None
    assert found.runner_up.arm == A
    assert found.runner_up.interval is not None
    one = found.runner_up.interval
    assert (one.ratio, one.low, one.high) == pytest.approx(by_hand(REF, A, rates, range(4), 0.05 / 2))
    assert [versus.arm for versus in found.references] == [OWN]


def test_of_two_references_that_are_faster_the_fastest_wins() -> None:
    for references in ([REF, OWN], [OWN, REF]):
        found = result(played(begun([A, B], references), {A: 30.0, B: 28.0, REF: 36.0, OWN: 40.0}))
        assert found.winner == OWN
        assert [versus.arm for versus in found.references] == [REF]
        assert found.references[0].interval is not None
        assert found.references[0].interval.low > 1


def test_a_reference_that_may_be_as_fast_does_not_win() -> None:
    found = result(played(begun([A], [REF]), {A: 40.0, REF: 40.05}))
    assert found.winner == A
    assert found.references[0].interval is not None
    assert not found.references[0].interval.significant


def test_a_reference_that_is_degraded_is_compared_but_does_not_win() -> None:
    degraded = [measured(50.0, Kind.DEGRADED)]
    found = result(played(begun([A, B]), {A: 40.0, B: 39.0, REF: 50.0}, instead={(REF, 1): degraded}))
    assert found.winner == A
    assert found.references[0].interval is not None
    assert found.references[0].interval.high < 1


def test_a_reference_that_failed_is_not_spoken_of() -> None:
    oom = [ended(Kind.OUT_OF_MEMORY)]
    found = result(
        played(begun([A, B], [REF, OWN]), {A: 40.0, B: 36.0, REF: 60.0, OWN: 30.0}, instead={(REF, 3): oom})
    )
    assert found.winner == A
    assert [versus.arm for versus in found.references] == [OWN]


def test_a_reference_that_did_not_survive_its_soak_makes_way_for_the_leader() -> None:
    one = played(begun([A, B]), {A: 36.0, B: 34.0, REF: 40.0})
    soaked = [*one.records, a_launch(99, REF, ended(Kind.CRASHED), Errand(Purpose.SOAK, 1))]
    found = result_of(one.confirmation, soaked)
    assert found is not None
    assert found.winner == A
    assert [versus.arm for versus in found.references] == [REF]


# --- leaders that did not survive


def test_a_leader_that_was_disqualified_makes_way_for_the_next_dropped_or_not() -> None:
    rates = {A: 40.0, B: 38.0, C: 36.0, REF: 20.0}
    one = played(begun([A, B, C]), rates)
    gone: list[str] = []
    for winner, second in ((A, B), (B, C), (C, None)):
        found = result_of(one.confirmation, [*one.records, *unfit(*gone)])
        assert found is not None
        assert found.winner == winner
        assert (found.runner_up.arm if found.runner_up else None) == second
        assert found.references[0].interval is not None
        expected = by_hand(winner, REF, rates, range(4), 0.05 / 3)[0]
        assert found.references[0].interval.ratio == pytest.approx(expected)
        gone.append(winner)
    assert result_of(one.confirmation, [*one.records, *unfit(*gone)]) is None


def test_each_soak_that_is_not_survived_makes_way_for_the_next() -> None:
    one = played(begun([A, B]), {A: 40.0, B: 38.0, REF: 20.0})
    records = list(one.records)
    for number, winner in enumerate((A, B), 90):
        found = result_of(one.confirmation, records)
        assert found is not None
        assert found.winner == winner
        records.append(a_launch(number, winner, ended(Kind.CRASHED), Errand(Purpose.SOAK, 1)))
        assert found.launches == 12
    assert result_of(one.confirmation, records) is None


def test_who_comes_back_is_measured_against_others_in_the_blocks_they_share() -> None:
    """C is dropped at the first look, before the rig slows down; with a gone it is no faster than b for that."""
    rates = {A: 40.0, B: 37.6, C: 37.5}
    slow = dict.fromkeys(range(4, 8), 0.9)

    def launch(step: Wanted, _tries: int) -> LaunchResult:
        sway = {B: (0.95, 1.06, 0.96, 1.05)[step.block % 4]}.get(step.arm, 1.0)
        return measured(rate_of(step.arm, step.block, rates) * sway * slow.get(step.block, 1.0))

    one = confirm(begun([A, B, C], [], blocks=8), launch)
    assert [step.arm for step in one.asked if step.block >= 4].count(C) == 0
    found = result_of(one.confirmation, [*one.records, *unfit(A)])
    assert found is not None
    assert (found.winner, found.tied_with) == (B, (C,))
    assert found.runner_up is not None
    assert found.runner_up.interval is not None
    assert found.runner_up.interval.ratio > 1


def test_nobody_wins_where_all_leaders_failed() -> None:
    oom = [ended(Kind.OUT_OF_MEMORY)]
    one = played(begun([A, B]), {REF: 20.0}, instead={(A, 0): oom, (B, 0): oom})
    assert result_of(one.confirmation, one.records) is None


def test_a_leader_that_failed_is_no_runner_up() -> None:
    crashed = [ended(Kind.CRASHED)] * 2
    one = played(begun([A, B, C]), {A: 40.0, B: 39.9, C: 30.0, REF: 20.0}, instead={(B, 3): crashed})
    found = result(one)
    assert found.winner == A
    assert found.runner_up is not None
    assert found.runner_up.arm == C


# --- what stands out


def test_launches_that_had_to_be_made_again_are_named() -> None:
    one = played(
        begun([A, B]),
        {A: 40.0, B: 36.0, REF: 20.0},
        instead={
            (A, 0): [ended(Kind.DISTURBED), ended(Kind.DISTURBED)],
            (REF, 1): [ended(Kind.CRASHED)],
        },
    )
    found = result(one)
    assert found.repeated == (50, 51, 55)
    assert found.launches == 15
    assert (found.winner, found.blocks) == (A, 4)


def test_a_launch_that_still_runs_was_not_repeated() -> None:
    one = played(begun([A, B], blocks=8), EVEN, launches=12)
    running = [*one.records, a_launch(62, A, None, Errand(Purpose.CONFIRM, 1, 4))]
    found = result_of(one.confirmation, running)
    assert found is not None
    assert (found.repeated, found.blocks) == ((), 4)


def test_a_launch_that_stands_out_is_named() -> None:
    one = played(begun([A, B]), {A: 40.0, B: 36.0, REF: 20.0}, instead={(B, 2): [measured(30.0)]})
    number = next(row.number for row in one.records if row.key == B and row.errand.block == 2)
    assert result(one).outliers == (number,)


# --- when time is over


def test_when_time_is_over_the_complete_blocks_count_at_all_that_is_left_of_the_error() -> None:
    rates = {A: 40.0, B: 39.0, REF: 20.0}
    one = played(begun([A, B], blocks=8), rates, launches=3 * 3 + 1)
    found = result_of(replace(one.confirmation, over_at=3, ended=True), one.records)
    assert found is not None
    assert (found.winner, found.blocks, found.launches, found.time_over) == (A, 3, 10, True)
    assert found.runner_up is not None
    assert found.runner_up.interval is not None
    interval = found.runner_up.interval
    expected = by_hand(A, B, rates, range(3), 0.05)
    assert (interval.ratio, interval.low, interval.high) == pytest.approx(expected)


def test_what_is_left_of_a_block_that_was_cut_off_decides_nothing() -> None:
    """A was launched once more than b, on a rig that had become slower."""
    rates = {A: 40.05, B: 40.0, REF: 20.0}
    one = played(begun([A, B], blocks=8), rates, instead={(A, 2): [measured(30.0)]}, launches=2 * 3 + 1)
    assert one.asked[-1] == Wanted(A, 2)
    found = result_of(replace(one.confirmation, over_at=2), one.records)
    assert found is not None
    assert (found.winner, found.tied_with, found.tie_broken_by) == (A, (B,), "speed")


def test_a_block_that_lacks_but_the_reference_decides_nothing_either() -> None:
    instead = {(A, 2): [measured(20.0)], (C, 2): [measured(60.0)]}
    rates = {A: 40.0, B: 39.5, C: 39.0, REF: 20.0}
    one = played(begun([A, B, C], blocks=8), rates, instead=instead, launches=2 * 4 + 3)
    assert one.asked[-1] == Wanted(C, 2)
    found = result_of(replace(one.confirmation, over_at=2), one.records)
    assert found is not None
    assert found.winner == A
    assert found.runner_up is not None
    assert found.runner_up.arm == B


def test_after_one_block_there_is_no_result() -> None:
    one = played(begun([A, B], blocks=8), {A: 36.0, B: 40.0, REF: 20.0}, launches=5)
    assert result_of(replace(one.confirmation, over_at=1), one.records) is None


def test_after_no_block_there_is_no_result() -> None:
    one = played(begun([A, B], blocks=8), {A: 36.0, B: 40.0, REF: 20.0}, launches=2)
    assert result_of(replace(one.confirmation, over_at=0), one.records) is None


# --- the winner of a study


def test_the_winner_is_the_confirmed_one_else_the_one_of_the_search() -> None:
    found = a_record(0, PLAIN, measured(45.0))
    one = played(begun([A, B]), {A: 36.0, B: 40.0, REF: 20.0})
    assert winner_of(one.confirmation, [found, *one.records]) == B
    assert winner_of(one.confirmation, [found, *one.records[:5]]) == PLAINEST
    assert winner_of(None, [found, *one.records]) == PLAINEST
    assert winner_of(None, one.records) is None


# --- what ties go by


def test_headroom_is_the_least_that_was_free_on_its_own_devices() -> None:
    def launched(free_mib: dict[str, int], *devices: str) -> TrialRecord:
        one = PLAIN.with_options({"device": devices})
        return a_record(0, one, replace(measured(40.0), free_mib=free_mib))

    assert headroom_mib([launched({"CUDA0": 900, "CUDA1": 300}, "CUDA0", "CUDA1")]) == 300
    assert headroom_mib([launched({"CUDA0": 900, "CUDA1": 300}, "CUDA0")]) == 900
    both = [launched({"CUDA0": free}, "CUDA0") for free in (900, 700)]
    assert headroom_mib(both) == 700
    assert headroom_mib([a_record(0, PLAIN, measured(40.0)), a_record(1, PLAIN, None)]) is None
    assert headroom_mib([]) is None


def test_plain_is_what_has_few_options_that_not_every_command_has() -> None:
    rig: dict[str, Value] = {
        "device": ("CUDA0", "CUDA1"),
        "tensor-split": (3, 1),
        "ctx-size": 8192,
        "gpu-layers": 40,
    }
    assert plainness(PLAIN) == 0
    assert plainness(PLAIN.with_options(rig)) == 0
    assert plainness(PLAIN.with_options({"GGML_CUDA_ALLREDUCE": ""})) == 0
    assert plainness(PLAIN.with_options({"GGML_CUDA_ALLREDUCE": "internal", "split-mode": "tensor"})) == 2
    assert plainness(Candidate.of({"ubatch-size": 512})) == 0
    drafts = PLAIN.with_options({"spec-type": "draft-mtp", "spec-draft-n-max": 3})
    assert plainness(drafts.with_options({"ubatch-size": 1024})) == 3
