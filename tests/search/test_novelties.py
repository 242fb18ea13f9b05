"""What has become possible: new options and values in the space, and what the engine of then could not do."""

from collections.abc import Mapping

import pytest

from tests.support.played_search import TASK, candidate
from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult
from tuner.core.options import Value
from tuner.core.outcome import Kind, Outcome, Stage
from tuner.core.trial import TrialRecord
from tuner.search.novelties import Novelty, candidate_of, novelties

TENSOR, LAYER = candidate("tensor", (2, 3)), candidate("layer", (26, 40))
F16: Mapping[str, Value] = {"cache-type-k": "f16", "cache-type-v": "f16"}


def records(*rows: tuple[Candidate, LaunchResult]) -> list[TrialRecord]:
    return [a_record(number, one, result) for number, (one, result) in enumerate(rows)]


def options(*rows: tuple[Candidate, LaunchResult]) -> list[Mapping[str, Value]]:
    return [one.options for one in novelties(TASK.bound, {}, records(*rows))]


def test_a_new_value_of_an_option_in_the_space_is_one() -> None:
    new = {"spec-type": ("draft-mtp",), "cache-ram": (), "split-mode": ("row",)}
    found = novelties(TASK.bound, new, [])
    assert [one.options for one in found] == [
        {"spec-type": "draft-mtp"},
        {"spec-type": "ngram-mod,draft-mtp"},
    ]
    assert next(one.why for one in found) == "spec-type draft-mtp is new"


def test_a_whole_new_option_is_all_its_values_but_the_usual_one() -> None:
    assert [one.options for one in novelties(TASK.bound, {"kv-unified": ()}, [])] == [{"kv-unified": True}]


def test_what_never_worked_is_tried_again_by_the_smallest_combination_that_explains_it() -> None:
    refused = ended(Kind.UNSUPPORTED)
    assert options((TENSOR, refused), (LAYER, measured(40))) == [{"split-mode": "tensor"}]
    plain = TENSOR.with_options(F16)
    assert options((TENSOR, refused), (LAYER, measured(40)), (plain, measured(50))) == [
        {"split-mode": "tensor", "cache-type-k": "q8_0", "cache-type-v": "q8_0"}
    ]


def test_several_failures_of_one_kind_are_one() -> None:
    again = candidate("tensor", (1, 1))
    assert len(options((TENSOR, ended(Kind.CRASHED)), (again, ended(Kind.HUNG)), (LAYER, measured(40)))) == 1


@pytest.mark.parametrize(
    "result",
    [
        ended(Kind.OUT_OF_MEMORY),
        ended(Kind.TIMED_OUT),
        ended(Kind.STOPPED),
        LaunchResult(Outcome(Kind.DEGRADED, stage=Stage.COMPUTE)),
        LaunchResult(Outcome(Kind.DEGRADED, inferred=True)),
    ],
)
def test_what_did_not_fit_or_was_cut_off_is_none_of_the_engines(result: LaunchResult) -> None:
    assert options((TENSOR, result), (LAYER, measured(40))) == []


def test_what_worked_once_or_was_merely_slow_is_nothing_new() -> None:
    other = candidate("tensor", (1, 1))
    for worked in (measured(10.0), ended(Kind.PRUNED)):
        assert options((TENSOR, ended(Kind.CRASHED)), (other, worked), (LAYER, measured(40))) == []


def test_the_likeliest_candidate_of_the_kind_is_tried() -> None:
    kind = Novelty("", {"split-mode": "tensor"})
    asked: list[bool] = []

    def propose(refuses: object) -> Candidate:
        assert callable(refuses)
        asked.extend((refuses(TENSOR), refuses(LAYER)))
        return TENSOR

    assert candidate_of(kind, TASK.bound, LAYER, propose) == TENSOR
    assert asked == [False, True]


def test_where_nothing_is_proposed_the_best_is_changed() -> None:
    kind = Novelty("", {"cache-type-k": "q8_0", "cache-type-v": "q8_0"})
    best = LAYER.with_options(F16)
    assert candidate_of(kind, TASK.bound, best, lambda _refuses: None) == LAYER
    impossible = Novelty("", {"split-mode": "sideways"})
    changed = candidate_of(impossible, TASK.bound, best, lambda _refuses: None)
    assert changed is None or changed.get("split-mode") == "sideways"
