"""What the speed model proposes, and what it makes of trials."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.search_run import Job, search
from tests.support.models import splits_of
from tests.support.played_rigs import RIGS
from tests.support.played_search import BANDWIDTHS, SOME, TASK, candidate, never, refused, slower, trials
from tests.support.strategies import PROPERTY
from tests.support.trials import a_record, ended, measured
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.outcome import Kind, Outcome
from tuner.core.space import SearchSpace
from tuner.search.coordinates import BoundSpace
from tuner.search.speed.proposer import Idea, SpeedSearch, _expected_gain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.cards import Bandwidth
    from tuner.core.trial import TrialRecord

TRIALS = trials(SOME)


def speed(
    chance: Callable[[Candidate], float] = lambda _one: 1.0,
    *,
    room_mib: Mapping[str, float] | None = None,
    bandwidths: Mapping[str, Bandwidth | None] = BANDWIDTHS,
) -> SpeedSearch:
    room = room_mib or {device.name: float(device.free_mib) for device in TASK.devices}
    return SpeedSearch(TASK.bound, chance, room_mib=room, bandwidths=bandwidths)


def idea(records: Sequence[TrialRecord], chance: Callable[[Candidate], float] = lambda _one: 1.0) -> Idea:
    found = speed(chance).propose(records, refused(records), never)
    assert found is not None
    return found


# --- proposals


def test_there_is_a_proposal_before_the_first_trial() -> None:
    found = idea([])
    assert found.expected_tok_s > 1
    assert found.gain > 0


def test_a_proposal_was_not_tried() -> None:
    assert idea(TRIALS).candidate not in SOME
    again = [*TRIALS, *trials([idea(TRIALS).candidate])]
    assert idea(again).candidate != idea(TRIALS).candidate


def test_same_trials_give_the_same_proposal() -> None:
    for n in (0, 1, 4, len(TRIALS)):
        assert idea(TRIALS[:n]) == idea(TRIALS[:n])
    search_of_many = speed()
    found = [search_of_many.propose(TRIALS[:n], refused(TRIALS[:n]), never) for n in (3, 9, 3)]
    assert found[0] == found[2] == idea(TRIALS[:3])


def test_only_what_is_likely_to_fit_is_proposed() -> None:
    found = idea(TRIALS, lambda one: 1.0 if one.get("cache-type-k") == "q8_0" else 0.5).candidate
    assert found.get("cache-type-k") == "q8_0"
    one_way = idea(TRIALS, lambda one: 0.9 if one.devices == ("CUDA0", "CUDA1") else 0.7).candidate
    assert one_way.devices == ("CUDA0", "CUDA1")


def test_where_nothing_fits_nothing_is_proposed() -> None:
    assert speed(lambda _one: 0.49).propose(TRIALS, refused(TRIALS), never) is None


def test_a_risk_is_taken_where_all_that_is_safe_promises_little() -> None:
    def only_slow_is_safe(one: Candidate) -> float:
        return 0.95 if not one.drafts else 0.6

    def all_is_fair(one: Candidate) -> float:
        return 0.95 if one.get("cache-type-k") == "f16" else 0.6

    risky = idea(TRIALS, only_slow_is_safe).candidate
    assert risky.drafts
    assert idea(TRIALS, all_is_fair).candidate.get("cache-type-k") == "f16"


def test_what_does_not_fit_is_proposed_with_smaller_buffers() -> None:
    found = idea(TRIALS, lambda one: 1.0 if one.get("ubatch-size") == 128 else 0.6).candidate
    assert found.get("ubatch-size") == 128
    assert found.get("spec-draft-type-k") in {"f16", None}


def test_what_does_not_fit_then_is_proposed_with_a_smaller_cache_of_its_drafts() -> None:
    """In a long context that takes more: it is unpacked into a buffer."""

    def chance(one: Candidate) -> float:
        small = one.get("ubatch-size") == 128 and one.get("spec-draft-type-k") == "q8_0"
        return 1.0 if small else 0.6

    found = idea(TRIALS, chance).candidate
    assert found.draft_depth > 0
    assert found.get("spec-draft-type-k") == found.get("spec-draft-type-v") == "q8_0"


def test_what_fits_keeps_its_buffers() -> None:
    assert idea(TRIALS).candidate.get("ubatch-size") == 512


def test_what_is_refused_is_not_proposed() -> None:
    found = speed().propose(TRIALS, lambda one: one.get("split-mode") == "tensor", never)
    assert found is not None
    assert found.candidate.get("split-mode") != "tensor"
    assert speed().propose(TRIALS, lambda _one: True, never) is None


def test_weights_that_are_more_than_a_device_has_are_not_looked_at() -> None:
    looked_at: list[Candidate] = []

    def chance(one: Candidate) -> float:
        looked_at.append(one)
        return 0.0

    room = {"CUDA0": 10_000.0, "CUDA1": 24_000.0}
    speed(chance, room_mib=room).propose(TRIALS, refused(TRIALS), never)
    assert looked_at
    for one in looked_at:
        first = dict(zip(one.devices, one.split, strict=False)).get("CUDA0", 0) / sum(one.split)
        assert len(one.split) == 2
        assert first < 0.4


def test_a_space_that_the_model_does_not_know_is_left_to_others() -> None:
    bound = BoundSpace(SearchSpace("s", "", {"split-mode": "row"}), ("A", "B"), splits_of(9), {})
    nothing = SpeedSearch(bound, lambda _one: 1.0, room_mib={}, bandwidths={})
    assert nothing.propose([], lambda _one: False, never) is None
    assert nothing.chance_of_gain([], 0.01, lambda _one: False) == 1.0


@pytest.mark.parametrize("rig", ["2x-rtx3090", "h200-pair"])
@pytest.mark.parametrize("seed", [1, 2])
def test_twelve_launches_come_near_the_best(rig: str, seed: int) -> None:
    done = search(Job(RIGS / f"{rig}.toml", 1.0, "tuner", seed, launches=12))
    assert done.fractions[-1] >= 0.97


def test_a_mode_that_the_engine_refuses_is_left_after_one_launch() -> None:
    reference = a_record(0, None, measured(20.0), reference=ENGINE_DEFAULT)
    records = [reference]
    for number in range(1, 7):
        found = idea(records).candidate
        refused_mode = found.get("split-mode") == "tensor"
        result = ended(Kind.UNSUPPORTED) if refused_mode else trials([found])[0].result
        records.append(a_record(number, found, result))
    modes = [one.candidate.get("split-mode") for one in records if one.candidate is not None]
    assert modes[0] == "tensor"
    assert modes.count("tensor") <= 2


# --- expected gain

numbers = st.floats(-3, 3)
sigmas = st.floats(0.01, 2)


@PROPERTY
@given(numbers, numbers, sigmas, sigmas)
def test_expected_gain_is_positive_and_grows_with_the_mean_and_the_doubt(
    one: float, other: float, sure: float, unsure: float
) -> None:
    low, high = sorted((one, other))
    sharp, wide = sorted((sure, unsure))
    gains = _expected_gain(np.array([low, high, low]), np.array([sharp, sharp, wide]), 0.0)
    assert (gains >= -1e-12).all()
    assert gains[1] >= gains[0] - 1e-12
    assert gains[2] >= gains[0] - 1e-12
    assert gains[1] >= high - 1e-12


# --- chance of a gain


def test_before_the_first_trial_a_gain_is_certain() -> None:
    assert speed().chance_of_gain([], 0.5, refused([])) == 1.0
    failed = [a_record(0, SOME[0], ended(Kind.OUT_OF_MEMORY))]
    assert speed().chance_of_gain(failed, 0.5, refused(failed)) == 1.0


def test_a_larger_gain_is_less_likely() -> None:
    found = [speed().chance_of_gain(TRIALS, gain, refused(TRIALS)) for gain in (0.0, 0.02, 0.1, 0.5, 3.0)]
    assert found == sorted(found, reverse=True)
    assert 0 <= found[-1] < 0.01
    assert found[0] <= 1


def test_what_cannot_be_launched_is_no_chance() -> None:
    assert speed().chance_of_gain(TRIALS, 0.0, lambda _one: True) == 0.0
    assert speed(lambda _one: 0.5).chance_of_gain(TRIALS, 0.0, refused(TRIALS)) == 0.0


# --- estimates


def scores(records: Sequence[TrialRecord]) -> list[float]:
    return [record.score or 0.0 for record in records]


def test_an_estimate_is_near_what_was_measured() -> None:
    found = speed().estimates(TRIALS)
    assert list(found) == list(range(len(TRIALS)))
    assert list(found.values()) == pytest.approx(scores(TRIALS), rel=0.06)


def test_luck_is_shared_out_between_equal_candidates() -> None:
    lucky = [
        *TRIALS,
        slower(replace(TRIALS[3], number=12), 0.93),
        slower(replace(TRIALS[3], number=13), 1.07),
    ]
    found = speed().estimates(lucky)
    assert found[12] == pytest.approx(found[13])
    assert (lucky[12].score or 0) / (lucky[13].score or 1) > 1.1


def test_luck_is_shared_out_between_candidates_that_hardly_differ() -> None:
    twin = SOME[3].with_options({"kv-unified": True})
    pair = [slower(TRIALS[3], 0.95), slower(replace(TRIALS[3], number=12, candidate=twin), 1.05)]
    records = [*TRIALS[:3], pair[0], *TRIALS[4:], pair[1]]
    found = speed().estimates(records)
    apart = abs(log((pair[0].score or 1) / (pair[1].score or 1)))
    assert abs(log(found[3] / found[12])) < 0.8 * apart


def test_a_trial_that_drafts_less_often_is_estimated_by_what_it_yielded() -> None:
    sparing = candidate("tensor", (2, 3), 4, spec_draft_p_min=0.9)
    records = [*TRIALS, *trials([sparing], first=len(TRIALS))]
    found = speed().estimates(records)
    assert found[12] == pytest.approx(records[12].score, rel=0.06)
    assert found[12] < 0.95 * found[5]


def test_one_that_is_many_times_slower_moves_no_other_estimate() -> None:
    cursed = slower(replace(TRIALS[7], number=12, candidate=SOME[7].with_options({"ubatch-size": 256})), 4.0)
    before, after = speed().estimates(TRIALS), speed().estimates([*TRIALS, cursed])
    assert after[12] == pytest.approx(cursed.score, rel=0.1)
    for number in range(len(TRIALS)):
        if number != 7:  # its twin
            assert after[number] == pytest.approx(before[number], rel=0.05)


def test_trials_that_count_for_nothing_have_no_estimate() -> None:
    assert speed().estimates([]) == {}
    records = [
        *TRIALS[:4],
        a_record(4, SOME[4], ended(Kind.OUT_OF_MEMORY)),
        a_record(5, None, measured(50.0), reference=ENGINE_DEFAULT),
        a_record(6, SOME[5], None),
    ]
    assert sorted(speed().estimates(records)) == [0, 1, 2, 3]


def test_a_trial_that_was_given_up_counts_by_the_prompts_that_it_shares() -> None:
    whole = TRIALS[7]
    slow = slower(replace(whole, number=12, candidate=candidate("layer", (22, 44))), 2.0)
    assert slow.result is not None
    given_up = replace(slow.result, outcome=Outcome(Kind.PRUNED), samples=slow.result.samples[:1])
    found = speed().estimates([*TRIALS, replace(slow, result=given_up)])
    assert set(found) == set(range(13))
    assert found[12] < 0.75 * max(scores(TRIALS))


# --- what is believed beforehand


def test_cards_that_nobody_knows_are_as_fast_as_a_reference_shows() -> None:
    unknown = speed(bandwidths={})
    found = []
    for rate in (20.0, 40.0):
        records = [a_record(0, None, measured(rate), reference=ENGINE_DEFAULT)]
        first = unknown.propose(records, refused(records), never)
        assert first is not None
        found.append(first.expected_tok_s)
    assert found[1] > 1.4 * found[0]


def test_usual_error_is_that_of_the_trials() -> None:
    factors = np.random.default_rng(1).normal(0, 0.4, 36)
    wild = [slower(replace(TRIALS[n % 12], number=n), exp(factor)) for n, factor in enumerate(factors)]
    assert speed().usual_error(TRIALS) < 0.06
    assert speed().usual_error(wild) > 0.12


# --- what devices reach, for a study of another file


def test_what_devices_reach_lets_the_next_study_begin_with_what_is_true() -> None:
    """Of devices whose figures nobody published, such as RPC servers, nothing else is known."""
    rates = speed().device_rates(TRIALS)
    assert set(rates) == {"CUDA0", "CUDA1"}
    known = {name: replace(rate, sigma=0.3) for name, rate in rates.items()}
    true = {one.key(): record.score or 0.0 for one, record in zip(SOME, TRIALS, strict=True)}

    def off(bandwidths: Mapping[str, Bandwidth | None]) -> float:
        """By how much a study without trials misses what a plain configuration makes, as a logarithm."""
        plain = candidate("layer", (26, 40))
        fresh = speed(bandwidths=bandwidths)
        found = fresh.propose([], lambda one: one != plain, never)
        assert found is not None
        return abs(log(found.expected_tok_s / true[plain.key()]))

    assert off(known) < 0.1
    assert off({}) > 3 * off(known)


def test_nothing_is_said_of_devices_before_there_are_trials_or_that_none_has_read_from() -> None:
    assert speed().device_rates(TRIALS[:2]) == {}
    alone = trials([candidate("none", (), device=("CUDA0",), ubatch_size=size) for size in (128, 256, 512)])
    assert set(speed().device_rates(alone)) == {"CUDA0"}
