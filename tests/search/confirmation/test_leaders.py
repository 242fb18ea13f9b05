"""Who is confirmed, and in how many blocks."""

from __future__ import annotations

from dataclasses import replace
from math import exp, hypot, sqrt
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tests.support.trials import a_record, a_sample, ended, measured, unfit
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.objective import Goal, Objective
from tuner.core.outcome import Kind, Outcome
from tuner.core.trial import Errand, Purpose
from tuner.search.confirmation.leaders import affordable, leaders_of

if TYPE_CHECKING:
    from tuner.core.trial import TrialRecord

#: Of one request and one launch, twice each of both sides: what is slower by more is clearly slower.
CLEARLY = exp(-2 * sqrt(2) * hypot(0.025, 0.03))


def candidate(size: int, depth: int = 0) -> Candidate:
    plain = Candidate.of({"ubatch-size": size})
    return plain.with_options({"spec-type": "draft-mtp", "spec-draft-n-max": depth}) if depth else plain


def trial(number: int, tok_s: float, *, size: int | None = None, depth: int = 0) -> TrialRecord:
    """A candidate of its own, unless a size says otherwise."""
    return a_record(number, candidate(number if size is None else size, depth), measured(tok_s))


def numbers(records: list[TrialRecord], out: tuple[str, ...] = ()) -> list[int]:
    return [record.number for record in leaders_of(records, out)]


# --- who


def test_nobody_leads_where_nothing_was_measured() -> None:
    assert leaders_of([]) == []
    assert leaders_of([a_record(0, candidate(1), ended(Kind.CRASHED)), a_record(1, candidate(2), None)]) == []


def test_the_likeliest_comes_first_and_the_earlier_of_equals() -> None:
    assert numbers([trial(3, 40.0), trial(1, 40.0), trial(2, 41.0)]) == [2, 1, 3]


def test_who_is_clearly_slower_is_not_confirmed() -> None:
    assert numbers([trial(0, 40.0), trial(1, 40.0 * CLEARLY * 1.001)]) == [0, 1]
    assert numbers([trial(0, 40.0), trial(1, 40.0 * CLEARLY * 0.999)]) == [0]


def test_with_all_slots_busy_the_best_without_drafts_is_confirmed_whatever_it_made() -> None:
    rows = [trial(n, 40.0 + n / 10, depth=3) for n in range(6)] + [trial(6, 9.0), trial(7, 12.0)]
    assert 7 not in numbers(rows)
    together = [replace(row, goal=Goal(Objective.THROUGHPUT)) for row in rows]
    found = numbers(together)
    assert found[:3] == numbers(rows)[:3]
    assert found[3:] == [7]


def test_many_requests_tell_closer_candidates_apart() -> None:
    def long(number: int, tok_s: float) -> TrialRecord:
        samples = tuple(a_sample(prompt_id=f"p{n}", predicted_ms=1e5 / tok_s) for n in range(16))
        result = replace(measured(tok_s), samples=samples)
        return a_record(number, candidate(number), result)

    slower = 40.0 * CLEARLY * 1.001
    assert numbers([long(0, 40.0), long(1, slower)]) == [0]
    assert numbers([long(0, 40.0), trial(1, slower)]) == [0]
    assert numbers([long(0, 40.0), long(1, 39.0)]) == [0, 1]


def test_drafts_are_less_certain() -> None:
    slower = 40.0 * CLEARLY * 0.95
    assert numbers([trial(0, 40.0), trial(1, slower)]) == [0]
    assert numbers([trial(0, 40.0), trial(1, slower, depth=8)]) == [0, 1]


def test_no_more_than_four_are_confirmed() -> None:
    assert numbers([trial(n, 40.0 + n / 10) for n in range(6)]) == [5, 4, 3, 2]


def test_what_all_trials_say_counts_not_one_lucky_measurement() -> None:
    lucky = replace(trial(0, 60.0), estimate_tok_s=40.5)
    assert numbers([lucky, trial(1, 41.0)]) == [1, 0]


def test_a_candidate_leads_once_by_the_trial_that_is_worth_most() -> None:
    assert numbers([trial(0, 40.0, size=7), trial(1, 42.0, size=7), trial(2, 41.0, size=7)]) == [1]


def test_references_and_what_may_not_win_do_not_lead() -> None:
    records = [
        a_record(0, None, measured(90.0), reference=ENGINE_DEFAULT),
        a_record(1, candidate(1), measured(80.0, Kind.DEGRADED)),
        trial(2, 40.0),
    ]
    assert numbers(records) == [2]


@pytest.mark.parametrize("purpose", [Purpose.CONFIRM, Purpose.SOAK, Purpose.ENDURE])
def test_only_what_was_searched_makes_a_leader(purpose: Purpose) -> None:
    again = replace(trial(1, 60.0, size=0), errand=Errand(purpose, 1, 0))
    assert numbers([trial(0, 40.0), again]) == [0]
    assert numbers([again]) == []


def test_who_is_out_of_the_question_makes_room_for_the_next() -> None:
    records = [trial(0, 60.0), trial(1, 40.0), trial(2, 20.0)]
    assert numbers(records) == [0]
    assert numbers(records, (candidate(0).key(),)) == [1]
    assert numbers(records, tuple(candidate(n).key() for n in range(3))) == []


def test_who_did_not_survive_a_soak_does_not_lead_again() -> None:
    soaked = a_record(2, candidate(0), ended(Kind.CRASHED), errand=Errand(Purpose.SOAK, 1))
    assert numbers([trial(0, 60.0), trial(1, 40.0), soaked]) == [1]


@PROPERTY
@given(st.lists(st.floats(1, 100), min_size=1, max_size=12))
def test_the_best_leads_and_nobody_is_left_out_for_a_worse_one(speeds: list[float]) -> None:
    records = [trial(number, tok_s) for number, tok_s in enumerate(speeds)]
    found = leaders_of(records)
    assert found[0].worth == max(record.worth for record in records)
    assert 1 <= len(found) <= 4
    others = [record.worth for record in records if record not in found]
    assert all(found[-1].worth >= worth for worth in others)
    assert leaders_of(records[::-1]) == found


# --- in how many blocks


def test_without_a_limit_all_that_is_wanted_is_affordable() -> None:
    assert affordable([60, 60, 60], [60], blocks=8, seconds=None) == (3, 8)


def test_with_enough_time_all_that_is_wanted_is_affordable() -> None:
    assert affordable([60, 60, 60], [60], blocks=8, seconds=8 * 240) == (3, 8)
    assert affordable([60, 60, 60], [60], blocks=8, seconds=1e6) == (3, 8)


def test_with_less_time_there_are_fewer_blocks_down_to_the_first_look() -> None:
    assert affordable([60, 60, 60], [60], blocks=8, seconds=8 * 240 - 1) == (3, 7)
    assert affordable([60, 60, 60], [60], blocks=8, seconds=4 * 240) == (3, 4)


def test_then_there_are_fewer_leaders() -> None:
    assert affordable([60, 60, 60], [60], blocks=8, seconds=4 * 240 - 1) == (2, 5)
    assert affordable([60, 60, 60], [60], blocks=8, seconds=4 * 180 - 1) == (1, 5)


def test_the_best_alone_is_confirmed_with_two_blocks_at_least() -> None:
    assert affordable([60, 60, 60], [60], blocks=8, seconds=3 * 120) == (1, 3)
    assert affordable([60, 60, 60], [60], blocks=8, seconds=2 * 120) == (1, 2)
    assert affordable([60, 60, 60], [60], blocks=8, seconds=2 * 120 - 1) == (0, 0)


def test_two_blocks_that_are_wanted_are_enough_for_any() -> None:
    assert affordable([60, 60], [60], blocks=2, seconds=2 * 180) == (2, 2)


@pytest.mark.parametrize("seconds", [0.0, -5.0, -1e9])
def test_without_time_nothing_is_affordable(seconds: float) -> None:
    assert affordable([60], [60], blocks=8, seconds=seconds) == (0, 0)


def test_without_a_leader_nothing_is_affordable() -> None:
    assert affordable([], [60], blocks=8, seconds=1e6) == (0, 0)


def test_launches_that_take_no_time_are_all_affordable() -> None:
    assert affordable([0, 0], [], blocks=8, seconds=1.0) == (2, 8)


@PROPERTY
@given(
    st.lists(st.floats(1, 600), min_size=1, max_size=4),
    st.lists(st.floats(1, 600), max_size=2),
    st.integers(2, 12),
    st.floats(0, 1e5),
)
def test_what_is_affordable_fits_into_the_time(
    leaders_s: list[float], references_s: list[float], blocks: int, seconds: float
) -> None:
    many, possible = affordable(leaders_s, references_s, blocks=blocks, seconds=seconds)
    assert (many == 0) == (possible == 0)
    assert possible <= blocks
    assert possible * (sum(leaders_s[:many]) + sum(references_s)) <= seconds * (1 + 1e-12)
    if many == 0:
        assert 2 * (leaders_s[0] + sum(references_s)) > seconds * (1 - 1e-12)


def test_those_that_were_given_up_have_their_chance_when_nobody_else_is_left() -> None:
    def given_up(number: int, size: int, tok_s: float) -> TrialRecord:
        result = replace(measured(tok_s), outcome=Outcome(Kind.PRUNED, evidence="70% of the best"))
        return a_record(number, candidate(size), result)

    best = a_record(0, candidate(128), measured(130.0))
    slow, fast = given_up(1, 256, 90.0), given_up(2, 512, 100.0)
    records = [best, slow, fast]
    assert leaders_of(records) == [best]
    assert leaders_of(records, {best.key}) == [fast, slow]
    assert leaders_of([*records, *unfit(best.key, fast.key)]) == [slow]
