"""Rates are sums over sums."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, samples
from tests.support.trials import a_sample
from tuner.core.measurement import Sample, rates, rates_by_class


def test_a_rate_is_a_sum_of_tokens_over_a_sum_of_time() -> None:
    slow = a_sample(predicted_n=101, predicted_ms=10_000.0, prompt_n=100, prompt_ms=1000.0)
    fast = a_sample(predicted_n=101, predicted_ms=1000.0, prompt_n=300, prompt_ms=1000.0)
    found = rates([slow, fast])
    assert found.generation_tok_s == pytest.approx(200 / 11.0)  # the mean of 10 and 100 would say 55
    assert found.prompt_tok_s == pytest.approx(200.0)
    assert found.n_samples == 2


def test_the_first_token_comes_out_of_the_prompt_pass() -> None:
    assert a_sample(predicted_n=33, predicted_ms=1000.0).generation_tok_s == pytest.approx(32.0)


@pytest.mark.parametrize(("n", "ms"), [(0, 100.0), (1, 100.0), (10, 0.0)])
def test_a_request_without_a_rate_has_none(n: int, ms: float) -> None:
    sample = a_sample(predicted_n=n, predicted_ms=ms)
    assert sample.generation_tok_s is None
    assert rates([sample]).generation_tok_s is None


def test_a_sum_over_nothing_is_none() -> None:
    nothing = rates([])
    assert nothing.n_samples == 0
    assert (nothing.generation_tok_s, nothing.prompt_tok_s, nothing.acceptance) == (None, None, None)
    assert (nothing.ttft_s, nothing.generation_spread) == (None, None)
    assert (nothing.drafted, nothing.accepted) == (0, 0)


def test_acceptance_is_accepted_over_drafted_tokens() -> None:
    found = rates(
        [
            a_sample(draft_n=90, draft_n_accepted=80),
            a_sample(draft_n=10, draft_n_accepted=0),
            a_sample(draft_n=None, draft_n_accepted=None),
        ]
    )
    assert (found.drafted, found.accepted) == (100, 80)
    assert found.acceptance == pytest.approx(0.8)  # the mean of the two would say 0.44


def test_drafts_of_which_none_is_accepted_are_drafts() -> None:
    assert rates([a_sample(draft_n=375, draft_n_accepted=0)]).acceptance == 0.0
    assert rates([a_sample()]).acceptance is None


def test_the_spread_needs_two_requests() -> None:
    assert rates([a_sample()]).generation_spread is None
    assert rates([a_sample(), a_sample()]).generation_spread == 0.0
    spread = rates([a_sample(predicted_ms=1000.0), a_sample(predicted_ms=1250.0)]).generation_spread
    assert spread == pytest.approx(14.142 / 90, rel=1e-3)  # of 100 and 80 tok/s


def test_classes_keep_their_order() -> None:
    rows = [a_sample(prompt_class=name) for name in ("prose", "code", "prose")]
    found = rates_by_class(rows)
    assert list(found) == ["prose", "code"]
    assert [one.n_samples for one in found.values()] == [2, 1]


@PROPERTY
@given(st.lists(samples))
def test_rates_lie_between_the_rates_of_the_requests(rows: list[Sample]) -> None:
    rows = [row for row in rows if row.generation_tok_s is not None]
    found = rates(rows)
    single = [row.generation_tok_s or 0.0 for row in rows]
    if not single:
        assert found.generation_tok_s is None
        return
    assert found.generation_tok_s is not None
    assert min(single) * (1 - 1e-9) <= found.generation_tok_s <= max(single) * (1 + 1e-9)
    assert found.ttft_s == pytest.approx(fmean(row.ttft_s for row in rows))


@PROPERTY
@given(st.lists(samples))
def test_asking_twice_as_often_changes_no_rate(rows: list[Sample]) -> None:
    once, twice = rates(rows), rates(rows + rows)
    for name in ("generation_tok_s", "prompt_tok_s", "acceptance", "ttft_s"):
        before, after = getattr(once, name), getattr(twice, name)
        assert after == (None if before is None else pytest.approx(before))


@PROPERTY
@given(st.lists(samples))
def test_classes_add_up_to_all(rows: list[Sample]) -> None:
    found = rates_by_class(rows)
    assert sum(one.n_samples for one in found.values()) == len(rows)
    assert sum(one.drafted for one in found.values()) == rates(rows).drafted
