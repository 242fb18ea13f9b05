"""The one table of outcomes."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.support.strategies import PROPERTY, outcomes
from tuner.core.outcome import MEASURED, POLICIES, Kind, Outcome, Phase, Stage, TrialState

# kinds: state, samples count, may win, tried again so often, ends the run
TABLE = {
    "none": ("COMPLETE", True, True, 0, False),
    "degraded": ("COMPLETE", True, False, 0, False),
    "out-of-memory unsupported draft-unavailable not-as-asked rejected pruned": (
        "PRUNED",
        False,
        False,
        0,
        False,
    ),
    "crashed hung timed-out": ("PRUNED", False, False, 1, False),
    "device-error rpc-lost port-in-use stopped disturbed": ("FAIL", False, False, 2, False),
    "bad-flag bad-model engine-broken": ("FAIL", False, False, 0, True),
}
ROWS = {kind: row for kinds, row in TABLE.items() for kind in kinds.split()}


def test_every_kind_has_a_policy_and_a_row_here() -> None:
    assert set(POLICIES) == set(Kind)
    assert set(ROWS) == {kind.value for kind in Kind}


@pytest.mark.parametrize("kind", list(Kind))
def test_policies_are_those_of_the_table(kind: Kind) -> None:
    policy = Outcome(kind).policy
    assert (policy.state, policy.measured, policy.may_win, policy.retries, policy.ends_run) == ROWS[kind]


@pytest.mark.parametrize("kind", list(Kind))
def test_only_what_was_measured_completes_and_only_that_can_win(kind: Kind) -> None:
    policy = POLICIES[kind]
    assert policy.measured == (policy.state is TrialState.COMPLETE)
    assert policy.measured or not policy.may_win


def test_the_policies_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        POLICIES[Kind.HUNG] = POLICIES[Kind.NONE]  # type: ignore[index]  # the point of the test


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (MEASURED, "measured"),
        (Outcome(Kind.HUNG, phase=Phase.WARMUP), "hung in warmup"),
        (
            Outcome(Kind.OUT_OF_MEMORY, Phase.LOAD, Stage.KV, "CUDA0", 6144.0),
            "out-of-memory at kv on CUDA0 (6,144 MiB asked for)",
        ),
        (
            Outcome(Kind.OUT_OF_MEMORY, Phase.BENCHMARK, device="CUDA1", inferred=True),
            "out-of-memory (inferred) in benchmark on CUDA1",
        ),
    ],
)
def test_an_outcome_is_a_sentence(outcome: Outcome, sentence: str) -> None:
    assert outcome.sentence() == sentence


@PROPERTY
@given(outcomes)
def test_every_sentence_begins_with_its_kind(outcome: Outcome) -> None:
    begins = "measured" if outcome.kind is Kind.NONE else outcome.kind.value
    assert outcome.sentence().startswith(begins)
