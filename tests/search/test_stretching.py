"""Which context a winner is launched with next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.outcome import Kind
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.search.largest import STEP_TOKENS
from tuner.search.stretching import MOST_ATTEMPTS, next_context, reached

WINNER = Candidate.of({"ubatch-size": 512, "ctx-size": 8192})


def launched(*ends: tuple[int, Kind], candidate: Candidate = WINNER) -> list[TrialRecord]:
    return [
        a_record(
            number,
            candidate.with_options({"ctx-size": context}),
            measured(40.0) if kind is Kind.NONE else ended(kind),
            errand=Errand(Purpose.STRETCH),
        )
        for number, (context, kind) in enumerate(ends)
    ]


def test_the_first_is_what_is_expected_to_fit() -> None:
    assert next_context(WINNER, [], 32_768) == 32_768


@pytest.mark.parametrize("expected", [8192, 4096])
def test_no_more_than_its_own_is_not_tried(expected: int) -> None:
    assert next_context(WINNER, [], expected) is None


def test_once_it_runs_nothing_more_is_to_be_found_out() -> None:
    records = launched((32_768, Kind.OUT_OF_MEMORY), (30_720, Kind.NONE))
    assert next_context(WINNER, records, 65_536) is None
    found = reached(WINNER, records)
    assert found is not None
    assert found.number == 1


def test_after_one_that_is_too_large_follows_less_by_a_sixteenth_at_least() -> None:
    records = launched((32_768, Kind.OUT_OF_MEMORY))
    assert next_context(WINNER, records, 32_768) == 30_720
    assert next_context(WINNER, records, 16_384) == 16_384  # what was learned from it says still less
    thrice = [(size, Kind.OUT_OF_MEMORY) for size in (32_768, 30_720, 28_672)]
    assert next_context(WINNER, launched(*thrice), 30_000) is None


def test_what_ended_by_no_fault_of_its_own_is_launched_again() -> None:
    assert next_context(WINNER, launched((32_768, Kind.DISTURBED)), 40_960) == 32_768
    twice = launched((32_768, Kind.RPC_LOST), (32_768, Kind.RPC_LOST))
    assert next_context(WINNER, twice, 32_768) == 32_768


def test_a_degraded_one_does_not_count_as_reached() -> None:
    records = launched((32_768, Kind.DEGRADED))
    assert reached(WINNER, records) is None
    assert next_context(WINNER, records, 32_768) == 30_720


def test_another_configurations_launches_say_nothing() -> None:
    other = launched((32_768, Kind.OUT_OF_MEMORY), candidate=WINNER.with_options({"ubatch-size": 128}))
    assert next_context(WINNER, other, 32_768) == 32_768


@PROPERTY
@given(st.integers(1, 400), st.integers(1, 400))
def test_it_comes_to_an_end_below_what_was_tried_and_above_its_own(expected: int, wall: int) -> None:
    tried: list[tuple[int, Kind]] = []
    while (context := next_context(WINNER, launched(*tried), expected * STEP_TOKENS)) is not None:
        assert context > 8192
        assert all(context < before for before, _ in tried)
        tried.append((context, Kind.NONE if context <= wall * STEP_TOKENS else Kind.OUT_OF_MEMORY))
    assert len(tried) <= MOST_ATTEMPTS
