"""What parameters explain: Optuna's figures, over candidates as they are."""

from __future__ import annotations

import random

import pytest

from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.outcome import Kind
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.importances import LEAST_MEASURED, importances


def searched(n: int = 40) -> list[TrialRecord]:
    """The split decides nearly all, ubatch a little, and the KV types, which change together, nothing."""
    dice = random.Random(4)  # noqa: S311 - no secret
    records = []
    for number in range(n):
        part, ubatch, kv = dice.randrange(1, 20), dice.choice([128, 512]), dice.choice(["f16", "q8_0"])
        drafts = {"spec-type": "draft-mtp", "spec-draft-n-max": dice.randrange(1, 5)} if number % 2 else {}
        one = Candidate.from_json(
            {
                "split-mode": "layer",
                "tensor-split": [part, 20 - part],
                "ubatch-size": ubatch,
                "cache-type-k": kv,
                "cache-type-v": kv,
                "kv-unified": False,
                **drafts,
            }
        )
        records.append(a_record(number, one, measured(20 + 3 * part + ubatch / 500)))
    return records


def test_what_decides_comes_first_and_parts_add_up_to_one() -> None:
    found = importances(searched())
    assert next(iter(found)) == "tensor-split"
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert sum(found.values()) == pytest.approx(1)
    assert found["tensor-split"] > 0.5


def test_what_decides_who_is_fastest_counts_not_who_is_slowest() -> None:
    dice = random.Random(5)  # noqa: S311 - no secret
    records = []
    for number in range(120):
        fast, slow = dice.randrange(10), dice.randrange(10)
        one = Candidate.of({"split-mode": "layer", "ubatch-size": 64 + fast, "batch-size": 512 + slow})
        tok_s = 100.0 if fast == 9 else 10.0 if slow == 0 else 50.0
        records.append(a_record(number, one, measured(tok_s + dice.random())))
    found = importances(records)
    assert found["ubatch-size"] > 3 * found["batch-size"]


def test_options_that_change_together_are_one_and_those_that_never_do_are_none() -> None:
    found = importances(searched())
    assert "cache-type-k, cache-type-v" in found
    assert "split-mode" not in found
    assert "kv-unified" not in found


def test_a_parameter_that_only_some_have_is_among_them() -> None:
    assert "spec-draft-n-max" in importances(searched())


def test_a_study_of_one_parameter_is_explained_by_it() -> None:
    records = [
        a_record(number, Candidate.of({"split-mode": "none", "ubatch-size": size}), measured(30 + number))
        for number, size in enumerate((64, 128, 256, 512, 1024, 2048))
    ]
    assert importances(records) == {"ubatch-size": 1.0}


def test_only_what_the_search_has_measured_counts() -> None:
    records = searched()
    rest = [
        a_record(900, None, measured(99.0), reference="engine-default"),
        a_record(901, Candidate.of({"split-mode": "row"}), ended(Kind.UNSUPPORTED)),
        a_record(
            902, Candidate.of({"split-mode": "tensor"}), measured(1.0), errand=Errand(Purpose.CONFIRM, 1)
        ),
    ]
    assert importances([*records, *rest]) == importances(records)


def test_where_nothing_can_be_told_nothing_is_said() -> None:
    assert importances([]) == {}
    assert importances(searched(LEAST_MEASURED - 1)) == {}
    alike = [a_record(number, record.candidate, measured(20.0)) for number, record in enumerate(searched(8))]
    assert importances(alike) == {}
    same = [a_record(number, searched(1)[0].candidate, measured(20.0 + number)) for number in range(8)]
    assert importances(same) == {}
