"""How far a study's answers are from the largest file's."""

from __future__ import annotations

from dataclasses import replace

from tests.support.trials import a_record, measured
from tuner.core.candidate import Candidate
from tuner.core.quality import BOUND_NATS, Loss, Quality
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.search.against_largest import least_off_nats, loss_of

ONE, OTHER = (Candidate.of({"ubatch-size": size}) for size in (128, 512))


def loss(nats: float) -> Loss:
    return Loss(90, 300, nats, None, nats * 5, 0.9)


def looked_at(
    number: int,
    candidate: Candidate,
    own: float | None,
    largest: float | None,
    purpose: Purpose = Purpose.SEARCH,
) -> TrialRecord:
    quality = Quality(
        None if own is None else loss(own),
        BOUND_NATS,
        0.0,
        None,
        1.0,
        to_largest=None if largest is None else loss(largest),
    )
    return a_record(number, candidate, replace(measured(40.0), quality=quality), errand=Errand(purpose))


RECORDS = [
    looked_at(0, ONE, 0.002, 0.05),
    looked_at(1, OTHER, 0.004, 0.07),
    looked_at(2, OTHER, 0.005, 0.06, Purpose.CONFIRM),
    looked_at(3, ONE, 0.001, 0.01, Purpose.STRETCH),
    a_record(4, ONE, measured(40.0)),
]


def test_the_last_launch_that_was_compared_counts() -> None:
    assert loss_of(OTHER.key(), RECORDS, is_reference=False) == loss(0.06)
    assert loss_of(ONE.key(), RECORDS, is_reference=False) == loss(0.05)
    assert loss_of(None, RECORDS, is_reference=False) is None


def test_of_the_study_whose_reference_it_is_its_own_distance_counts() -> None:
    assert loss_of(OTHER.key(), RECORDS, is_reference=True) == loss(0.005)


def test_the_best_answers_of_a_study_are_the_nearest_of_any_configuration() -> None:
    assert least_off_nats(RECORDS, is_reference=False) == 0.05
    assert least_off_nats(RECORDS, is_reference=True) == 0.0
    assert least_off_nats(RECORDS[4:], is_reference=False) is None
