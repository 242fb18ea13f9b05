"""What is launched next, and what is refused."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tests.support.models import splits_of
from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchSpec
from tuner.core.outcome import POLICIES, Kind
from tuner.core.space import Cap, Choice, Rule, SearchSpace
from tuner.search.coordinates import BoundSpace, complete
from tuner.search.dimensions import Categorical, Coordinate, Dimension
from tuner.search.queue import MAX_REFUSALS, again, pending, propose, refusal, wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.core.launch import LaunchResult

ONE, OTHER = Candidate.of({"ubatch-size": 512}), Candidate.of({"ubatch-size": 256})
REFERENCES = (LaunchSpec(None, ENGINE_DEFAULT), LaunchSpec(None, CURRENT))
BOUND = BoundSpace(
    SearchSpace(
        "s",
        "",
        MappingProxyType({"split-mode": "none"}),
        (Choice("ubatch-size", (128, 256, 512, 1024), 512),),
        rules=(Rule("ubatch-size", "<=", 512, right_is_option=False),),
        caps=(Cap((("ubatch-size", (256,)),), 1),),
    ),
    ("CUDA0",),
    splits_of(31),
    {},
)


def drawn(ubatch_size: int) -> Candidate:
    return complete(BOUND, {"ubatch-size": ubatch_size})


# --- what is wanted still


@pytest.mark.parametrize("kind", list(Kind))
def test_what_ended_is_tried_again_as_often_as_the_table_says(kind: Kind) -> None:
    retries = POLICIES[kind].retries
    records = [a_record(number, ONE, ended(kind)) for number in range(retries + 2)]
    assert [wanted(ONE.key(), records[:tries]) for tries in range(len(records) + 1)] == [
        True,  # never tried
        *(tries <= retries for tries in range(1, len(records) + 1)),
    ]


def test_the_last_try_decides() -> None:
    records = [a_record(0, ONE, ended(Kind.RPC_LOST)), a_record(1, ONE, measured(50.0))]
    assert not wanted(ONE.key(), records)


def test_what_runs_is_not_started_a_second_time() -> None:
    assert not wanted(ONE.key(), [a_record(0, ONE, None)])


def test_tries_of_others_do_not_count() -> None:
    records = [a_record(0, OTHER, measured(50.0))] * 3 + [a_record(3, ONE, ended(Kind.HUNG))]
    assert wanted(ONE.key(), records)


# --- references first


def test_references_are_launched_in_order() -> None:
    assert pending(REFERENCES, []) is REFERENCES[0]
    first = a_record(0, None, measured(40.0), reference=ENGINE_DEFAULT)
    assert pending(REFERENCES, [first]) is REFERENCES[1]
    second = a_record(1, None, ended(Kind.OUT_OF_MEMORY), reference=CURRENT)
    assert pending(REFERENCES, [first, second]) is None


def test_a_reference_that_was_lost_is_launched_again() -> None:
    records = [a_record(0, None, ended(Kind.RPC_LOST), reference=ENGINE_DEFAULT)]
    assert pending(REFERENCES, records) is REFERENCES[0]


def test_a_candidate_can_be_pending() -> None:
    spec = LaunchSpec(ONE)
    assert pending([spec], [a_record(0, OTHER, measured(1.0))]) is spec
    assert pending([spec], [a_record(0, ONE, measured(1.0))]) is None


# --- again


def test_the_first_that_has_to_be_done_again() -> None:
    records = [
        a_record(0, None, ended(Kind.STOPPED), reference=ENGINE_DEFAULT),
        a_record(1, OTHER, measured(50.0)),
        a_record(2, ONE, ended(Kind.STOPPED)),
    ]
    assert again(records) == ONE
    assert again([*records, a_record(3, ONE, measured(50.0))]) is None
    assert again([]) is None


# --- refusals


def test_what_is_new_and_keeps_the_rules_is_not_refused() -> None:
    assert refusal(BOUND, drawn(512), []) is None


@pytest.mark.parametrize("result", [None, measured(50.0), ended(Kind.CRASHED)])
def test_what_was_tried_is_refused_however_it_ended(result: LaunchResult | None) -> None:
    record = a_record(0, drawn(512), result)
    assert refusal(BOUND, drawn(512), [record]) == "was tried already"


def test_what_breaks_a_rule_is_refused() -> None:
    assert refusal(BOUND, drawn(1024), []) == "breaks the rule ubatch-size <= 512"


def test_what_exceeds_a_cap_is_refused() -> None:
    other = drawn(256).with_options({"prio": 1})
    assert refusal(BOUND, drawn(256), []) is None
    assert refusal(BOUND, drawn(256), [a_record(0, other, measured(1.0))]) == (
        "1 launches of its kind are allowed and were made"
    )


# --- proposals


class Script:
    """A sampler that says what it is told to say, and remembers what was refused."""

    def __init__(self, values: Iterable[int]) -> None:
        self._values = iter(values)
        self.refused: list[int] = []
        self._last = 0

    def ask(self) -> Script:
        self._last = next(self._values)
        return self

    def suggest(self, dimension: Dimension) -> Coordinate:
        assert dimension == Categorical("ubatch-size", (128, 256, 512, 1024))
        return self._last

    def refuse(self) -> None:
        self.refused.append(self._last)


def test_refused_proposals_are_told_to_the_sampler() -> None:
    script = Script([1024, 1024, 512, 256])
    found = propose(script, BOUND, lambda one: refusal(BOUND, one, []) is not None)
    assert found == drawn(512)
    assert script.refused == [1024, 1024]


def test_a_space_is_used_up_when_everything_is_refused() -> None:
    script = Script([512] * (MAX_REFUSALS + 1))
    assert propose(script, BOUND, lambda _one: True) is None
    assert len(script.refused) == MAX_REFUSALS


def test_each_kind_of_end_has_its_own_count() -> None:
    records = [a_record(0, ONE, ended(Kind.RPC_LOST)), a_record(1, ONE, ended(Kind.DISTURBED))]
    assert wanted(ONE.key(), records)
    records.append(a_record(2, ONE, ended(Kind.DISTURBED)))
    assert wanted(ONE.key(), records)
    records.append(a_record(3, ONE, ended(Kind.DISTURBED)))
    assert not wanted(ONE.key(), records)
