"""Two results side by side: what differs is said, and only what means something is compared."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.test_best import DATE, FACTS
from tests.support.known_proofs import REF, A, played, state
from tuner.report.best import best_document, check_best
from tuner.report.compare import Comparison, compared

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("one", "other")


def result(tok_s: float = 40.0, *, confirmed: bool = True, **facts: Any) -> dict[str, Any]:  # noqa: ANN401 - any fact
    """A confirmed study's best.json, with some of its facts changed."""
    confirmation, records = state(played(arms=(A,), rates={A: tok_s, REF: 20.0}), ended=True)
    document = best_document(
        records,
        {**FACTS, **{name: {**FACTS[name], **value} for name, value in facts.items()}},
        date=DATE,
        confirmation=confirmation if confirmed else None,
    )
    assert document is not None
    check_best(document)
    return copy.deepcopy(document)  # it shares its facts


def told(one: Mapping[str, Any], other: Mapping[str, Any]) -> Comparison:
    return compared(one, other, NAMES)


def test_the_same_twice_differs_in_nothing_and_is_as_fast() -> None:
    found = told(result(), result())
    assert (found.differences, found.forbidden) == ((), ())
    first, caveat, drift = found.sentences()
    assert first.startswith("other is 1.000x (95 %: 0.9")
    assert "no significant difference" in first
    assert first.endswith("(4 and 4 launches).")
    assert "not made side by side" in caveat
    assert drift == "Of the engine's own choice, the second run made 1.000x of the first."


def test_a_faster_engine_is_told_by_how_much() -> None:
    found = told(result(40.0), result(50.0, engine={"digest": "cd", "version": "version: 2"}))
    assert [(row.what, row.one, row.other) for row in found.differences] == [
        ("engine", "version: 1 [ab]", "version: 2 [cd]")
    ]
    assert found.interval is not None
    assert found.interval.low < 1.25 < found.interval.high
    assert found.interval.significant
    assert len(found.sentences()) == 2  # on another engine its own choice is something else


def test_one_launch_of_each_has_no_interval() -> None:
    found = told(result(confirmed=False), result(confirmed=False))
    assert found.interval is None
    assert found.sentences()[0] == (
        "other is 1.00x as fast as one: 40.0 against 40.0 tok/s; too few launches for an interval."
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"model": {"fingerprint": "g"}}, "another model (m, 0.00 GiB [f]; m, 0.00 GiB [g])"),
        ({"workload": {"ctx_size": 8192}}, "another context (16,384 tokens; 8,192 tokens)"),
        (
            {"workload": {"digest": "e", "max_tokens": 64}},
            "another workload (1 prompts of default, 101 tokens each",
        ),
        ({"workload": {"digest": "e"}}, "another workload (other prompts; prompts of default)"),
        ({"workload": {"digest": "e", "sampling": {"temperature": 0.6}}}, "another samplers (temperature 0 "),
    ],
)
def test_what_means_something_else_is_not_compared(facts: dict[str, Any], said: str) -> None:
    found = told(result(), result(**facts))
    assert found.sentences() == []
    assert found.forbidden[0].startswith(said)


def test_another_rig_is_not_compared_and_another_port_is_the_same_rig() -> None:
    other = result()
    other["devices"][0]["uuid"] = "GPU-2"
    assert told(result(), other).forbidden == ("another rig (CUDA0 RTX 5080 GPU-1; CUDA0 RTX 5080 GPU-2)",)
    rpc = [result(), result()]
    for document, port in zip(rpc, (5001, 5002), strict=True):
        document["devices"][0] |= {"uuid": None, "description": f"10.0.0.2:{port}"}
    assert told(*rpc).differences == ()
    rpc[1]["devices"][0] |= {"memory_stated": True, "total_mib": 8000}
    assert told(*rpc).forbidden[0].startswith("another rig")


def test_the_options_in_which_winners_differ_are_named() -> None:
    other = result()
    other["winner"]["parameters"] |= {"ubatch-size": 512, "tensor-split": [2, 3]}
    rows = {row.what: (row.one, row.other) for row in told(result(), other).differences}
    assert rows["ubatch-size"] == ("128", "512")
    assert rows["tensor-split"] == ("not set", "2,3")


def test_files_from_before_have_no_launches_to_compare() -> None:
    old = result()
    for leader in old["confirmation"]["leaders"]:
        del leader["scores_tok_s"]
    del old["winner"]["score_tok_s"]
    found = told(old, result())
    assert found.interval is None
    assert found.scores_tok_s[0] == pytest.approx(40, rel=0.02)
