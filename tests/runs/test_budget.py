"""How much a run may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT, LaunchSpec
from tuner.core.outcome import Kind
from tuner.runs.budget import Budget, expected

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
