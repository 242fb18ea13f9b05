"""How much a run may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT, LaunchSpec
from tuner.core.outcome import Kind
from tuner.runs.budget import Budget, expected, for_the_search

if TYPE_CHECKING:
    from tuner.core.trial import TrialRecord

LAYER = Candidate.of({"split-mode": "layer"})
TENSOR = Candidate.of({"split-mode": "tensor"})
REFERENCE = LaunchSpec(None, ENGINE_DEFAULT)


def took(*rows: tuple[Candidate | None, float]) -> list[TrialRecord]:
    """Measured trials and the seconds that they took."""
    return [
        a_record(number, candidate, measured(50.0), reference=None if candidate else ENGINE_DEFAULT, wall_s=s)
        for number, (candidate, s) in enumerate(rows)
    ]


RECORDS = took((None, 30.0), (LAYER, 10.0), (LAYER, 12.0), (LAYER, 50.0), (TENSOR, 100.0))


def test_the_number_of_launches_is_a_bound() -> None:
    budget = Budget(None, 5)
    assert budget.why_over(RECORDS[:4], 1e9) is None
    assert budget.why_over(RECORDS, 0.0) == "all 5 launches are made"
    assert Budget(None, 0).why_over([], 0.0) == "all 0 launches are made"


def test_launches_count_however_they_end() -> None:
    records = [a_record(0, LAYER, ended(Kind.OUT_OF_MEMORY)), a_record(1, LAYER, None)]
    assert Budget(None, 2).why_over(records, 0.0) is not None


def test_launches_that_were_stopped_do_not_count_unless_nearly_all_are() -> None:
    stopped = [a_record(number, LAYER, ended(Kind.STOPPED)) for number in range(6)]
    assert Budget(None, 5).why_over([*stopped[:3], *RECORDS[:4]], 0.0) is None
    assert Budget(None, 5).why_over([*stopped[:3], *RECORDS], 0.0) is not None
    assert Budget(None, 2).why_over(stopped[:5], 0.0) is None
    assert Budget(None, 2).why_over(stopped, 0.0) is not None


def test_time_is_a_bound() -> None:
    budget = Budget(300.0, None)
    assert budget.why_over(RECORDS, 299.9) is None
    assert budget.why_over(RECORDS, 300.0) == "its time of 5.0 min is used up"


def test_what_is_left_is_never_less_than_nothing() -> None:
    assert Budget(300.0, None).left_s(100.0) == 200.0
    assert Budget(300.0, None).left_s(301.0) == 0.0
    assert Budget(None, 5).left_s(301.0) is None


def test_without_a_bound_it_is_never_over() -> None:
    assert Budget(None, None).why_over(RECORDS * 1000, 1e9) is None
    assert Budget(None, None).fits(LaunchSpec(TENSOR), RECORDS, 1e9)


@pytest.mark.parametrize(
    ("spec", "expected_s"),
    [
        (LaunchSpec(LAYER), 12.0),  # the median of its split mode: one slow launch does not count
        (LaunchSpec(TENSOR), 100.0),
        (LaunchSpec(Candidate.of({"split-mode": "none"})), 30.0),  # of all
        (REFERENCE, 30.0),
    ],
)
def test_a_launch_takes_as_long_as_those_like_it(spec: LaunchSpec, expected_s: float) -> None:
    assert expected(spec, RECORDS) == expected_s


def test_what_failed_says_nothing_about_how_long_a_launch_takes() -> None:
    records = [a_record(0, LAYER, ended(Kind.OUT_OF_MEMORY), wall_s=0.5), a_record(1, LAYER, None)]
    assert expected(LaunchSpec(LAYER), records) is None


def test_a_launch_has_to_fit_into_what_is_left() -> None:
    budget = Budget(300.0, None)
    assert budget.fits(LaunchSpec(TENSOR), RECORDS, 200.0)
    assert not budget.fits(LaunchSpec(TENSOR), RECORDS, 200.1)
    assert budget.fits(LaunchSpec(LAYER), RECORDS, 200.1)


def test_as_long_as_nothing_is_known_a_launch_is_tried() -> None:
    assert Budget(300.0, None).fits(LaunchSpec(TENSOR), [], 299.0)


# --- what the search may use of it


def searches(
    seconds: float | None,
    records: list[TrialRecord],
    *,
    blocks: int = 8,
    n_references: int = 1,
    soak: bool = True,
) -> float | None:
    return for_the_search(
        Budget(seconds, 40), records, blocks=blocks, n_references=n_references, soak=soak
    ).seconds


def test_without_a_limit_or_a_proof_the_search_may_use_all() -> None:
    assert searches(None, RECORDS) is None
    assert searches(3600.0, RECORDS, blocks=0, soak=False) == 3600.0


def test_a_search_leaves_time_to_confirm_and_to_soak() -> None:
    # 30 s a launch, in the median: two leaders and a reference eight times, and a soak of four launches
    assert searches(36_000.0, RECORDS) == 36_000.0 - (8 * 3 + 4) * 30.0
    assert searches(36_000.0, RECORDS, soak=False) == 36_000.0 - 8 * 3 * 30.0
    assert searches(36_000.0, RECORDS, blocks=0) == 36_000.0 - 4 * 30.0
    assert searches(36_000.0, RECORDS, n_references=2) == 36_000.0 - (8 * 4 + 4) * 30.0


def test_a_search_may_use_the_most_of_a_short_time_all_the_same() -> None:
    assert searches(600.0, RECORDS) == pytest.approx(0.6 * 600.0)


def test_as_long_as_nothing_is_known_the_most_is_left() -> None:
    failed = [a_record(0, LAYER, ended(Kind.OUT_OF_MEMORY), wall_s=500.0), a_record(1, LAYER, None)]
    for records in ([], failed):
        assert searches(1000.0, records) == pytest.approx(600.0)


def test_launches_are_those_of_the_search_alone() -> None:
    left = for_the_search(Budget(3600.0, 40), RECORDS, blocks=8, n_references=1, soak=True)
    assert left.launches == 40


@PROPERTY
@given(
    seconds=st.floats(1, 1e6),
    took=st.lists(st.floats(0.1, 1e4), max_size=9),
    blocks=st.integers(0, 32),
    n_references=st.integers(0, 2),
    soak=st.booleans(),
)
def test_a_search_may_use_a_part_that_is_never_small(
    seconds: float, took: list[float], blocks: int, n_references: int, *, soak: bool
) -> None:
    records = [a_record(number, LAYER, measured(50.0), wall_s=s) for number, s in enumerate(took)]
    found = searches(seconds, records, blocks=blocks, n_references=n_references, soak=soak)
    assert found is not None
    assert 0.6 * seconds * 0.999 <= found <= seconds
