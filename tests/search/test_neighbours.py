"""One option a step larger or smaller."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.task import task_of
from tests.support.played_rigs import simulated
from tuner.core.space import broken_rule
from tuner.core.space_document import parse_space
from tuner.search.coordinates import BoundSpace, complete
from tuner.search.neighbours import neighbour
from tuner.search.queue import refusal

if TYPE_CHECKING:
    from tuner.core.candidate import Candidate

SPACES = Path(__file__).parents[2] / "search_spaces"
BOUND = task_of(simulated("rtx5080-3090")).bound
SIZES = [128, 256, 512, 1024, 2048]


def best(ubatch: int, batch: int = 2048) -> Candidate:
    return complete(BOUND, {"ubatch-size": ubatch, "batch-size": batch})


def neighbours(of: Candidate) -> list[Candidate]:
    """All of them, in order."""
    found: list[Candidate] = []
    while (one := neighbour(of, BOUND, lambda candidate: candidate in found)) is not None:
        found.append(one)
    return found


@given(st.sampled_from(SIZES), st.sampled_from([512, 1024, 2048, 4096]))
def test_neighbours_are_a_step_away_and_keep_the_rules(ubatch: int, batch: int) -> None:
    own = best(ubatch, max(batch, ubatch))
    place = SIZES.index(ubatch)
    sizes = [one.get("ubatch-size") for one in neighbours(own)]
    assert sizes == [*SIZES[place + 1 : place + 2], *SIZES[max(place - 1, 0) : place]]
    for one in neighbours(own):
        assert broken_rule(BOUND.space, one.options) is None
        differs = {name for name, value in one.items if own.get(name) != value}
        assert differs <= {"ubatch-size", "batch-size"}


def test_a_batch_that_would_be_too_small_grows_along() -> None:
    (larger, _) = neighbours(best(512, 512))
    assert (larger.get("ubatch-size"), larger.get("batch-size")) == (1024, 1024)


def test_what_is_not_varied_has_no_neighbour() -> None:
    fixed = type(BOUND)(BOUND.space, BOUND.devices, BOUND.splits, {**BOUND.imposed, "ubatch-size": 512})
    assert neighbour(best(512), fixed, lambda _one: False) is None


SESSION = BoundSpace(
    parse_space("session", tomllib.loads((SPACES / "session.toml").read_text(encoding="utf-8"))),
    BOUND.devices,
    BOUND.splits,
    {"ctx-size": 65_536},
)


def test_of_a_session_slots_and_caches_have_neighbours_too() -> None:
    own = complete(SESSION, {"parallel": 2})
    found: list[Candidate] = []
    while (one := neighbour(own, SESSION, lambda candidate: candidate in found)) is not None:
        found.append(one)
    moved = {name for one in found for name, value in one.items if own.get(name) != value}
    assert moved >= {"ubatch-size", "parallel", "cache-ram", "cache-reuse", "ctx-checkpoints", "kv-unified"}


def test_slots_that_are_too_small_for_a_session_are_refused() -> None:
    bound = replace(SESSION, least_slot_context=24_000)
    apart, together = (complete(bound, {"parallel": 4, "kv-unified": unified}) for unified in (False, True))
    assert refusal(bound, apart, []) == "its slots hold less than 24,000 tokens"
    assert refusal(bound, together, []) is None
