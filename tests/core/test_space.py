"""Conditions, rules and caps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.support.strategies import PROPERTY, option_sets
from tuner.core.space import (
    Cap,
    Choice,
    Condition,
    Operator,
    Rule,
    SearchSpace,
    broken_rule,
    full_cap,
    holds,
)

if TYPE_CHECKING:
    from tuner.core.options import Value

TENSOR: Condition = (("split-mode", ("tensor",)),)


def space(*, rules: tuple[Rule, ...] = (), caps: tuple[Cap, ...] = ()) -> SearchSpace:
    return SearchSpace("s", "", rules=rules, caps=caps)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ((), True),
        (TENSOR, True),
        ((("split-mode", ("layer", "tensor")),), True),
        ((("split-mode", ("layer",)),), False),
        ((*TENSOR, ("ubatch-size", (512,))), True),
        ((*TENSOR, ("ubatch-size", (128, 256))), False),
        ((("spec-type", ("none",)),), False),  # not set
    ],
)
def test_conditions(condition: Condition, *, expected: bool) -> None:
    assert holds(condition, {"split-mode": "tensor", "ubatch-size": 512}) is expected


@PROPERTY
@given(option_sets)
def test_options_meet_the_condition_that_they_are(options: dict[str, Value]) -> None:
    assert holds(tuple((name, (value,)) for name, value in options.items()), options)


@pytest.mark.parametrize(
    ("op", "keeps"),
    [
        ("<=", (1, 2)),
        ("<", (1,)),
        ("==", (2,)),
        ("!=", (1, 3)),
        (">=", (2, 3)),
        (">", (3,)),
    ],
)
def test_rules_compare_numbers(op: Operator, keeps: tuple[int, ...]) -> None:
    rule = Rule("ubatch-size", op, 2, right_is_option=False)
    kept = [n for n in (1, 2, 3) if broken_rule(space(rules=(rule,)), {"ubatch-size": n}) is None]
    assert tuple(kept) == keeps


def test_a_rule_between_two_options_needs_both() -> None:
    rule = Rule("ubatch-size", "<=", "batch-size", right_is_option=True)
    one = space(rules=(rule,))
    assert broken_rule(one, {"ubatch-size": 1024, "batch-size": 512}) is rule
    assert broken_rule(one, {"ubatch-size": 512, "batch-size": 512}) is None
    assert broken_rule(one, {"ubatch-size": 1024}) is None
    assert broken_rule(one, {"batch-size": 1}) is None


def test_a_rule_counts_where_its_condition_holds() -> None:
    rule = Rule("cache-type-k", "==", "f16", right_is_option=False, when=TENSOR)
    one = space(rules=(rule,))
    assert broken_rule(one, {"cache-type-k": "q8_0", "split-mode": "layer"}) is None
    assert broken_rule(one, {"cache-type-k": "q8_0", "split-mode": "tensor"}) is rule


def test_a_name_of_an_option_can_be_a_plain_text() -> None:
    rule = Rule("spec-draft-device", "==", "device", right_is_option=False)
    assert broken_rule(space(rules=(rule,)), {"spec-draft-device": "device", "device": ("CUDA0",)}) is None


def test_an_order_between_texts_says_nothing() -> None:
    rule = Rule("cache-type-k", "<", "cache-type-v", right_is_option=True)
    assert broken_rule(space(rules=(rule,)), {"cache-type-k": "q8_0", "cache-type-v": "f16"}) is None


def test_the_first_broken_rule_is_named_as_a_person_would_write_it() -> None:
    rules = tuple(Rule("ubatch-size", "<=", limit, right_is_option=False) for limit in (900, 500, 400))
    found = broken_rule(space(rules=rules), {"ubatch-size": 512})
    assert str(found) == "ubatch-size <= 500"


def test_a_cap_is_full_when_its_launches_were_made() -> None:
    cap = Cap(TENSOR, 2)
    one = space(caps=(cap,))
    tensor: dict[str, Value] = {"split-mode": "tensor"}
    layer: dict[str, Value] = {"split-mode": "layer"}
    assert full_cap(one, tensor, [tensor, layer, layer]) is None
    assert full_cap(one, tensor, [tensor, layer, tensor]) is cap
    assert full_cap(one, layer, [tensor, tensor, tensor]) is None


def test_a_cap_of_nothing_is_full_at_once() -> None:
    cap = Cap(TENSOR, 0)
    assert full_cap(space(caps=(cap,)), {"split-mode": "tensor"}, []) is cap


def test_parameters_are_found_by_name() -> None:
    choice = Choice("ubatch-size", (128,), 128)
    one = SearchSpace("s", "", parameters=(choice,))
    assert one.parameter("ubatch-size") is choice
    assert one.parameter("batch-size") is None
