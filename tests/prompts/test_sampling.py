"""A sample is part of the whole, in its order, of every length, and always the same."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.workload import Prompt
from tuner.prompts.sampling import sampled


def prompt(number: int, characters: int) -> Prompt:
    return Prompt(str(number), "user", ({"role": "user", "content": "x" * characters},))


def length(one: Prompt) -> int:
    return len(one.messages[0]["content"])


def number(one: Prompt) -> int:
    return int(one.id)


sets = st.lists(st.integers(0, 50), min_size=1, max_size=60).map(
    lambda lengths: [prompt(number, n) for number, n in enumerate(lengths)]
)
sizes, seeds = st.integers(1, 80), st.integers(0, 2**32)


@PROPERTY
@given(sets, sizes, seeds)
def test_a_sample_is_a_part_in_order_as_large_as_asked(prompts: list[Prompt], n: int, seed: int) -> None:
    found = sampled(prompts, n, seed=seed, length=length)
    assert len(found) == min(n, len(prompts))
    numbers = [number(one) for one in found]
    assert numbers == sorted(set(numbers))
    assert all(prompts[number(one)] is one for one in found)


@PROPERTY
@given(sets, sizes, seeds)
def test_the_same_seed_draws_the_same(prompts: list[Prompt], n: int, seed: int) -> None:
    draws = [sampled(prompts, n, seed=seed, length=length) for _ in range(2)]
    assert draws[0] == draws[1]


@PROPERTY
@given(sets, sizes, seeds)
def test_every_stratum_of_lengths_is_there_once(prompts: list[Prompt], n: int, seed: int) -> None:
    by_length = sorted(prompts, key=length)
    n = min(n, len(prompts))
    strata = [by_length[k * len(by_length) // n : (k + 1) * len(by_length) // n] for k in range(n)]
    assert max(map(len, strata)) - min(map(len, strata)) <= 1
    drawn = {number(one) for one in sampled(prompts, n, seed=seed, length=length)}
    for stratum in strata:
        assert len(drawn & {number(one) for one in stratum}) == 1


def test_all_are_drawn_where_there_are_no_more() -> None:
    prompts = [prompt(number, 9 - number) for number in range(5)]
    for n in (5, 6, 1000):
        assert sampled(prompts, n, seed=1, length=length) == tuple(prompts)


def test_every_prompt_has_its_chance() -> None:
    prompts = [prompt(number, number) for number in range(40)]
    drawn = Counter(one.id for seed in range(2000) for one in sampled(prompts, 4, seed=seed, length=length))
    assert len(drawn) == 40
    assert min(drawn.values()) > 130  # of 200 on average, with a standard deviation of 13


def test_few_prompts_have_the_mean_length_of_many() -> None:
    prompts = [prompt(number, (number * 37 % 100) ** 2) for number in range(100)]
    whole = fmean(map(length, prompts))
    for seed in range(50):
        sample = sampled(prompts, 10, seed=seed, length=length)
        assert fmean(map(length, sample)) == pytest.approx(whole, rel=0.15)
