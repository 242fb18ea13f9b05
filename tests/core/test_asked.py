"""A server that did something else than asked is not a measurement of that candidate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.trials import a_sample
from tuner.core.asked import Asked, sample_difference, server_difference
from tuner.core.outcome import Kind, Phase

ASKED = Asked(n_ctx_slot=8192, n_parallel=1, drafts=True)


def a_server(
    n_ctx: int = 8192, slots: int = 1, *, speculative: object = True
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What `/props` and `/slots` of a server say."""
    props = {"total_slots": slots, "default_generation_settings": {"n_ctx": n_ctx}}
    return props, [{"id": number, "speculative": speculative} for number in range(slots)]


@pytest.mark.parametrize("n_ctx", [8192, 8448])
def test_a_server_that_did_as_asked_differs_in_nothing(n_ctx: int) -> None:
    assert server_difference(ASKED, *a_server(n_ctx)) is None


@pytest.mark.parametrize(
    ("server", "kind", "evidence"),
    [
        (a_server(n_ctx=4096), Kind.NOT_AS_ASKED, "8192 tokens of context a slot asked for, 4096 got"),
        (a_server(slots=4), Kind.NOT_AS_ASKED, "1 slots asked for, 4 got"),
        (a_server(speculative=False), Kind.DRAFT_UNAVAILABLE, "/slots says that the server does not draft"),
    ],
)
def test_what_a_server_did_otherwise(
    server: tuple[dict[str, Any], list[dict[str, Any]]], kind: Kind, evidence: str
) -> None:
    found = server_difference(ASKED, *server)
    assert found is not None
    assert (found.kind, found.phase, found.evidence) == (kind, Phase.LOAD, evidence)


def test_drafts_that_nobody_asked_for() -> None:
    found = server_difference(Asked(8192, 1, drafts=False), *a_server())
    assert found is not None
    assert found.kind is Kind.NOT_AS_ASKED
    assert server_difference(Asked(8192, 1, drafts=False), *a_server(speculative=False)) is None


def test_a_router_is_no_server_of_this_model() -> None:
    found = server_difference(Asked(None, None, None), {"role": "router"}, [])
    assert found is not None
    assert found.kind is Kind.NOT_AS_ASKED


def test_what_was_left_to_the_server_is_never_wrong() -> None:
    assert server_difference(Asked(None, None, None), *a_server(1, 7, speculative=False)) is None


@pytest.mark.parametrize("props", [{}, {"default_generation_settings": None}, {"total_slots": None}])
def test_what_a_server_does_not_say_is_not_held_against_it(props: dict[str, Any]) -> None:
    assert server_difference(ASKED, props, [{"id": 0}, {"speculative": None}]) is None


def test_a_sane_sample_differs_in_nothing() -> None:
    assert sample_difference(a_sample(), 101) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cache_n": 12}, "12 tokens of a fresh prompt came from a cache"),
        ({"predicted_n": 100}, "101 tokens asked for, 100 generated"),
        (
            {"wall_s": 10.2, "predicted_ms": 1000.0},
            "the server says 1.00 s for what took 10.00 s by our clock",
        ),
        ({"predicted_ms": 1701.0}, "the server says 1.70 s, the whole request took 1.20 s by our clock"),
    ],
)
def test_timings_that_cannot_be(changes: dict[str, Any], says: str) -> None:
    found = sample_difference(a_sample(**changes), 101)
    assert found is not None
    assert (found.kind, found.phase, found.evidence) == (Kind.NOT_AS_ASKED, Phase.BENCHMARK, says)


@pytest.mark.parametrize("predicted_ms", [1.0, 1699.0])
def test_clocks_of_short_answers_may_differ(predicted_ms: float) -> None:
    assert sample_difference(a_sample(predicted_ms=predicted_ms), 101) is None


def test_clocks_of_long_answers_may_differ_by_half() -> None:
    assert sample_difference(a_sample(ttft_s=0.0, wall_s=100.0, predicted_ms=49_600.0), 101) is None
    assert sample_difference(a_sample(ttft_s=0.0, wall_s=100.0, predicted_ms=49_400.0), 101) is not None
