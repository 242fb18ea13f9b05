"""Whose turn it is to propose, and when a search has done enough."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from math import exp
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.played_search import (
    BANDWIDTHS,
    SOME,
    TASK,
    candidate,
    gate,
    never,
    refused,
    slower,
    trials,
)
from tests.support.trials import a_record, ended, measured
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.memory.need import chance_to_fit
from tuner.core.objective import Goal, Objective
from tuner.core.outcome import Kind
from tuner.search.dimensions import Categorical, Integer
from tuner.search.strategy import Proposal, Search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.trial import TrialRecord
    from tuner.search.dimensions import Coordinate, Dimension
    from tuner.search.memory_gate import MemoryGate

TRIALS = trials(SOME)
#: Three times the same ones, by luck that no model explains.
WILD = [
    slower(replace(TRIALS[n % len(SOME)], number=n), exp(0.5 * error))
    for n, error in enumerate(np.random.default_rng(1).normal(size=36))
]
SAMPLER = "the sampler's proposal"


@dataclass
class PlayedSampler:
    """Draws at random, and counts how often it was made."""

    made: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(4))  # noqa: S311 - no secret

    def __call__(self) -> PlayedSampler:
        self.made += 1
        return self

    def ask(self) -> PlayedSampler:
        return self

    def suggest(self, dimension: Dimension) -> Coordinate:
        if isinstance(dimension, Categorical):
            return self.rng.choice(dimension.choices)
        if isinstance(dimension, Integer):
            return self.rng.randint(dimension.low, dimension.high)
        return dimension.low

    def refuse(self) -> None:
        pass


def search_with(memory: MemoryGate | None = None) -> Search:
    return Search(TASK.bound, memory or gate(), bandwidths=BANDWIDTHS)


def why(records: Sequence[TrialRecord], sampler: PlayedSampler | None = None) -> str:
    found = search_with().propose(records, refused(records), never, sampler or PlayedSampler())
    assert found is not None
    return found.why


# --- what a goal asks for


def with_goal(records: Sequence[TrialRecord], objective: Objective) -> list[TrialRecord]:
    return [replace(record, goal=Goal(objective)) for record in records]


def test_with_all_slots_busy_the_best_is_tried_without_drafts_once() -> None:
    drafting = [one for one in TRIALS if one.candidate is None or one.candidate.drafts]
    records = with_goal(drafting, Objective.THROUGHPUT)
    found = search_with().propose(records, refused(records), never, PlayedSampler())
    assert found is not None
    assert found.why.startswith("the best so far without drafts")
    best = max(
        (one for one in records if one.candidate is not None and one.may_win),
        key=lambda one: (one.worth, -one.number),
    ).candidate
    assert best is not None
    assert not found.candidate.drafts
    assert found.candidate.devices == best.devices
    assert found.candidate.get("split-mode") == best.get("split-mode")
    plain = replace(records[-1], number=len(records), candidate=found.candidate)
    assert not why([*records, plain]).startswith("the best so far without drafts")
    assert not why(drafting).startswith("the best so far without drafts")


def test_where_prompts_count_neighbours_of_the_best_are_tried() -> None:
    records = with_goal(TRIALS[:9], Objective.TURN)
    assert why(records).startswith("the best so far, ubatch-size ")
    assert why(records[:8]).startswith("the speed model")
    assert why(TRIALS[:9]).startswith("the speed model")


# --- whose turn it is


@pytest.mark.parametrize("n", [0, 1, 4, 8, 9])
def test_the_model_has_the_first_launches(n: int) -> None:
    sampler = PlayedSampler()
    assert why(WILD[:n], sampler).startswith("the speed model expects ")
    assert sampler.made == 0


def test_the_sampler_has_every_eighth_turn_where_the_model_explains_what_is_measured() -> None:
    calm = [*TRIALS, *(replace(record, number=record.number + 12) for record in TRIALS)]
    reasons = {n: why(calm[:n]) for n in range(10, 25)}
    assert [n for n, reason in reasons.items() if reason == SAMPLER] == [24]
    assert [n for n, reason in reasons.items() if not reason.startswith("the speed model")] == [16, 24]


def test_every_second_turn_of_the_sampler_is_the_best_with_other_switches() -> None:
    records = [*TRIALS, *(replace(record, number=record.number + 12) for record in TRIALS)][:16]
    found = search_with().propose(records, refused(records), never, PlayedSampler())
    assert found is not None
    assert found.why.startswith("the best so far with other switches")
    best = max(records, key=lambda record: (record.worth, -record.number)).candidate
    assert best is not None
    differs = {name for name, value in found.candidate.items if best.get(name) != value}
    assert differs
    assert differs <= {"batch-size", "ubatch-size", "kv-unified", "spec-draft-p-min"}


def test_switches_that_are_worth_something_are_kept() -> None:
    n = max(range(len(TRIALS)), key=lambda place: TRIALS[place].worth)
    twin = candidate_of(TRIALS[n]).with_options({"batch-size": 4096, "kv-unified": True})
    better = slower(replace(TRIALS[n], number=12, candidate=twin), 0.85)
    for trial, kept in ((better, (4096, True)), (slower(better, 1 / 0.85), (2048, False))):
        records = [*TRIALS, trial]
        found = search_with().propose(records, refused(records), never, PlayedSampler())
        assert found is not None
        assert (found.candidate.get("batch-size"), found.candidate.get("kv-unified")) == kept


def candidate_of(record: TrialRecord) -> Candidate:
    assert record.candidate is not None
    return record.candidate


def test_the_sampler_has_every_second_turn_where_the_model_does_not() -> None:
    turns = [n for n in range(28, 37) if why(WILD[:n]) == SAMPLER]
    assert turns == [28, 30, 32, 34, 36]


def test_the_model_has_the_turn_of_a_sampler_that_finds_nothing() -> None:
    found = search_with().propose(
        WILD,
        lambda one: one.get("batch-size") != 2048 or one.get("ubatch-size") != 512,
        never,
        PlayedSampler(),
    )
    none = search_with().propose(
        WILD, lambda one: one.get("ubatch-size") not in {512, 128}, never, NoSampler()
    )
    assert found is not None
    assert none is not None
    assert none.why.startswith("the speed model")


class NoSampler(PlayedSampler):
    """One whose every draw has buffers that are refused."""

    def suggest(self, dimension: Dimension) -> Coordinate:
        return 1024 if dimension.name == "ubatch-size" else super().suggest(dimension)


def test_the_sampler_has_the_turn_of_a_model_that_finds_nothing() -> None:
    """The model leaves what it knows nothing of at its default."""
    found = search_with().propose(
        TRIALS[:3], lambda one: one.get("batch-size") == 2048, never, PlayedSampler()
    )
    assert found is not None
    assert found.why == SAMPLER
    assert found.candidate.get("batch-size") != 2048


@pytest.mark.parametrize("records", [TRIALS[:3], WILD])
def test_where_all_is_refused_nothing_is_proposed(records: list[TrialRecord]) -> None:
    assert search_with().propose(records, lambda _one: True, never, PlayedSampler()) is None


def test_same_trials_and_seed_give_the_same_proposal() -> None:
    def ask(n: int) -> Proposal | None:
        memory = gate()
        memory.learn(TRIALS[:n])
        return search_with(memory).propose(TRIALS[:n], refused(TRIALS[:n]), never, PlayedSampler())

    for n in (0, 5, 12):
        assert ask(n) == ask(n) is not None


def test_what_is_proposed_is_likely_to_fit() -> None:
    tight = gate({"CUDA0": 20_000, "CUDA1": 14_000})
    found = search_with(tight).propose(TRIALS, refused(TRIALS), never, PlayedSampler())
    assert found is not None
    assert chance_to_fit(tight.predict(found.candidate), tight.room_mib) >= 0.75
    wide = search_with().propose(TRIALS, refused(TRIALS), never, PlayedSampler())
    assert wide is not None
    assert chance_to_fit(tight.predict(wide.candidate), tight.room_mib) < 0.75


# --- when it is done


#: The best there is, with its neighbours, and others after it.
F16 = {"cache_type_k": "f16", "cache_type_v": "f16"}
BEST = candidate("tensor", (13, 7), 5, **F16)
NEAR = [candidate("tensor", split, depth, **F16) for depth in (4, 6) for split in ((13, 7), (11, 9), (3, 2))]
DONE = trials(dict.fromkeys((*SOME[:6], BEST, *NEAR, *SOME[6:])))


def why_done(records: Sequence[TrialRecord], worthwhile: float = 0.3) -> str | None:
    return search_with().why_done(records, refused(records), worthwhile)


def test_a_search_is_done_where_an_improvement_is_unlikely() -> None:
    said = why_done(DONE)
    assert said is not None
    assert said.startswith("an improvement of 30.0% is unlikely now (a chance of ")


def test_any_improvement_is_worth_going_on_for_where_nothing_is_said() -> None:
    assert why_done(DONE, 0.0) is None


def test_a_search_is_not_done_while_much_may_be_gained() -> None:
    assert (
        why_done(trials([*SOME[:3], *SOME[8:], candidate("layer", (30, 36)), *SOME[:3], *SOME[:2]]), 0.02)
        is None
    )


def test_a_search_is_not_done_before_its_time() -> None:
    assert why_done(DONE[:11]) is None
    assert why_done([]) is None


def test_only_candidates_that_were_measured_count() -> None:
    other = [
        *DONE[:11],
        a_record(11, None, measured(40.0), reference=ENGINE_DEFAULT),
        a_record(12, SOME[7], ended(Kind.OUT_OF_MEMORY)),
    ]
    assert why_done(other) is None


def test_a_search_is_not_done_right_after_it_has_found_its_best() -> None:
    late = replace(slower(DONE[6], 0.95), number=99)
    records = [*DONE[:6], *DONE[7:], late]
    assert max(records, key=lambda record: record.worth) is late
    assert why_done(records) is None
    assert why_done([replace(late, number=6), *records[:-1]]) is not None


def test_a_model_that_does_not_explain_what_is_measured_says_nothing() -> None:
    assert why_done(WILD, 5.0) is None


def test_estimates_are_those_of_the_speed_model() -> None:
    found = search_with().estimates(TRIALS)
    assert sorted(found) == list(range(12))
    assert search_with().estimates([]) == {}
