"""How checks are ordered, joined and counted."""

from __future__ import annotations

from tuner.core.checkup.check import Check, Level, Topic, count, in_order, joined


def test_checks_are_ordered_by_topic_and_keep_their_order_within() -> None:
    checks = [
        Check(Topic.SLEEP, "", Level.OK, "a"),
        Check(Topic.PCIE, "", Level.OK, "z"),
        Check(Topic.ENGINE, "", Level.OK, "c"),
        Check(Topic.PCIE, "", Level.OK, "b"),
    ]
    assert [check.text for check in in_order(checks)] == ["c", "z", "b", "a"]


def test_what_holds_for_several_is_said_once() -> None:
    checks = [
        Check(Topic.PCIE, "CUDA0", Level.OK, "wide"),
        Check(Topic.PCIE, "CUDA1", Level.WARNING, "narrow", "widen"),
        Check(Topic.PCIE, "CUDA2", Level.OK, "wide"),
        Check(Topic.POWER, "CUDA0", Level.OK, "wide"),
    ]
    assert joined(checks) == [
        Check(Topic.PCIE, "CUDA0, CUDA2", Level.OK, "wide"),
        checks[1],
        checks[3],
    ]


def test_levels_are_counted() -> None:
    checks = [Check(Topic.PCIE, "", level, "") for level in (Level.OK, Level.PROBLEM, Level.OK)]
    assert (count(checks, Level.OK), count(checks, Level.PROBLEM), count(checks, Level.WARNING)) == (2, 1, 0)
