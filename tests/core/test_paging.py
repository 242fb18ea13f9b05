"""A server that lives from the disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.outcome import Kind
from tuner.core.paging import MIB_A_TOKEN, paged

TOKENS = [100, 100, 100]


def kind(*read_mib: float, tokens: list[int] = TOKENS) -> Kind | None:
    outcome = paged(read_mib, tokens[: len(read_mib)])
    return None if outcome is None else outcome.kind


@pytest.mark.parametrize("read_mib", [(0, 0, 0), (90, 90, 90), (200, 0, 0)])
def test_what_hardly_reads_is_measured(read_mib: tuple[float, ...]) -> None:
    assert kind(*read_mib) is None


def test_what_reads_to_its_last_token_is_degraded_and_not_slow() -> None:
    outcome = paged([40_000, 41_000, 39_000], TOKENS)
    assert outcome is not None
    assert outcome.kind is Kind.DEGRADED
    assert outcome.evidence == (
        "400 MiB a token were read from the disk while it answered, to the last request: what lies in host memory "
        "does not stay there"
    )


def test_what_was_touched_for_the_first_time_is_measured_again() -> None:
    assert kind(30_000, 2000, 0) is Kind.DISTURBED


def test_a_single_request_cannot_tell_the_two_apart_and_is_made_again() -> None:
    assert kind(30_000) is Kind.DISTURBED


@given(st.lists(st.tuples(st.floats(0, 1e5), st.integers(2, 1000)), max_size=6))
def test_below_the_bound_nothing_is_said_and_above_it_something_is(rows: list[tuple[float, int]]) -> None:
    read, tokens = [mib for mib, _ in rows], [n for _, n in rows]
    assert (paged(read, tokens) is not None) == (bool(rows) and sum(read) >= MIB_A_TOKEN * sum(tokens))
