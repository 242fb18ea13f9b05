"""What is launched, and results that survive being written down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from tests.support.strategies import PROPERTY, launch_results
from tests.support.trials import measured
from tuner.core.candidate import Candidate
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchResult, LaunchSpec


@PROPERTY
@given(launch_results)
def test_json_gives_back_an_equal_result(result: LaunchResult) -> None:
    assert LaunchResult.from_json(json.loads(json.dumps(result.to_json()))) == result


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"outcome": {}}, KeyError),
        ({"outcome": None}, TypeError),
        ({"samples": [{"surprise": 1}]}, TypeError),
        ({"samples": 3}, TypeError),
        ({"buffers_mib": 3}, TypeError),
    ],
)
def test_a_document_of_another_form_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        LaunchResult.from_json(measured(10.0).to_json() | change)


#: Added later: an older study has none.
LATER = {"quality", "soak"}


@pytest.mark.parametrize("missing", sorted(LATER))
def test_what_was_added_later_may_be_missing(missing: str) -> None:
    document = measured(10.0).to_json()
    del document[missing]
    assert LaunchResult.from_json(document) == measured(10.0)


@pytest.mark.parametrize("missing", sorted(set(measured(10.0).to_json()) - LATER))
def test_a_missing_field_is_named(missing: str) -> None:
    document = measured(10.0).to_json()
    del document[missing]
    with pytest.raises(KeyError, match=missing):
        LaunchResult.from_json(document)


@pytest.mark.parametrize("field", ["kind", "phase", "stage"])
def test_a_word_of_another_version_is_refused(field: str) -> None:
    document = measured(10.0).to_json()
    document["outcome"][field] = "melted"
    with pytest.raises(ValueError, match="melted"):
        LaunchResult.from_json(document)


def test_labels_are_for_people() -> None:
    candidate = Candidate.of({"split-mode": "layer", "ubatch-size": 512, "cache-type-k": "f16"})
    assert LaunchSpec(candidate).label == candidate.summary()
    assert LaunchSpec(None, ENGINE_DEFAULT).label == "reference: the engine's own choice"
    assert LaunchSpec(None, CURRENT).label == "reference: your command"
