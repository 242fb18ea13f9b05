"""A server that did something else than asked is not a measurement of that candidate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.logs import server_log
from tests.support.trials import a_sample
from tuner.core.asked import (
    Asked,
    alias_difference,
    draft_difference,
    log_difference,
    sample_difference,
    server_difference,
)
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
        (
            {"wall_s": 1.2, "predicted_ms": 1701.0},
            "the server says 1.70 s, the whole request took 1.20 s by our clock",
        ),
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


# --- whose server it is


def test_a_server_with_our_name_is_ours() -> None:
    assert alias_difference("tuner-1", {"model_alias": "tuner-1"}) is None


def test_a_server_with_another_name_is_somebody_elses() -> None:
    found = alias_difference("tuner-1", {"model_alias": "llama-3"})
    assert found is not None
    assert (found.kind, found.phase) == (Kind.PORT_IN_USE, Phase.LOAD)
    assert found.evidence == "another server answers on our port: its model is 'llama-3'"


@pytest.mark.parametrize(
    ("alias", "props"),
    [
        (None, {"model_alias": "the user's own"}),
        ("tuner-1", {}),
        ("tuner-1", {"model_alias": None}),
        ("tuner-1", {"role": "router", "model_alias": "llama-server"}),
    ],
)
def test_a_server_that_cannot_be_told_apart_is_taken_for_ours(
    alias: str | None, props: dict[str, Any]
) -> None:
    assert alias_difference(alias, props) is None


# --- what real servers' logs say

CUDA = Asked(None, None, None, devices=("CUDA0", "CUDA1"), every_layer=True, cache_types=("q8_0", "q8_0"))
RPC = Asked(None, None, None, devices=("RPC0", "RPC1"), every_layer=True, cache_types=("f16", "f16"))


def log_says(asked: Asked, log: str) -> str | None:
    found = log_difference(asked, log)
    if found is None:
        return None
    assert (found.kind, found.phase) == (Kind.NOT_AS_ASKED, Phase.LOAD)
    return found.evidence


@pytest.mark.parametrize(
    ("asked", "log"),
    [
        (CUDA, "O-compute-layer"),
        (CUDA, "O-load-tensor"),  # one device that stands for all
        (RPC, "rpc-layer-f16-24-7"),
        (RPC, "rpc-layer-f16-31-0"),  # a device without a layer is used all the same
        (RPC, "rpc-tensor-f16-2-1"),
    ],
)
def test_a_log_of_a_server_that_did_as_asked_differs_in_nothing(asked: Asked, log: str) -> None:
    assert log_says(asked, server_log(log)) is None


def test_a_device_that_is_not_used_is_named() -> None:
    log = server_log("O-compute-layer")
    one = "".join(line for line in log.splitlines(keepends=True) if "using device CUDA1" not in line)
    assert log_says(CUDA, one) == "CUDA1 asked for and not used, only CUDA0"
    assert log_says(Asked(None, None, None), one) is None
    both = Asked(None, None, None, devices=("ROCm0", "Vulkan1"))
    assert log_says(both, log) == "ROCm0, Vulkan1 asked for and not used, only CUDA0, CUDA1"


def test_a_device_is_not_missed_where_the_log_does_not_say_which_are_used() -> None:
    log = server_log("A-layer-lv4")
    assert "using device" not in log
    assert log_says(Asked(None, None, None, devices=("CUDA7",)), log) is None
    assert log_says(CUDA, "") is None


def test_a_server_without_a_card_is_told() -> None:
    log = "warning: no usable GPU found, --gpu-layers option will be ignored\n"
    assert log_says(CUDA, log) == "the log says: no usable GPU found"
    assert log_says(Asked(None, None, None), log) is None


def test_layers_that_stayed_on_the_processor_are_counted() -> None:
    log = server_log("A-tensor-lv4")
    assert "offloaded 66/66 layers" in log
    fewer = log.replace("offloaded 66/66 layers", "offloaded 60/66 layers")
    assert log_says(Asked(None, None, None, every_layer=True), log) is None
    assert (
        log_says(Asked(None, None, None, every_layer=True), fewer) == "6 of 66 layers stayed on the processor"
    )
    assert log_says(Asked(None, None, None), fewer) is None


@pytest.mark.parametrize(
    ("log", "asked", "got"),
    [
        ("rpc-layer-q8-31-0", ("f16", "f16"), "caches of f16/f16 asked for, q8_0/q8_0 got"),
        ("rpc-layer-f16-24-7", ("q8_0", "f16"), "caches of q8_0/f16 asked for, f16/f16 got"),
        ("rpc-layer-q8-31-0", ("q8_0", "q8_0"), None),
        ("O-seed-layer", ("q8_0", "q8_0"), None),  # the drafts' own cache comes after it, and is another
        ("O-load-layer", ("q4_0", "q4_0"), None),  # did not get as far as a cache
    ],
)
def test_caches_of_other_types_are_told(log: str, asked: tuple[str, str], got: str | None) -> None:
    assert log_says(Asked(None, None, None, cache_types=asked), server_log(log)) == got


def test_caches_that_were_left_to_the_server_are_never_wrong() -> None:
    assert log_says(Asked(None, None, None), server_log("rpc-layer-q8-31-0")) is None


# --- drafts that never come

DRAFTS = Asked(None, None, drafts=True, drafted_tokens=True)


def test_drafts_that_never_came_are_not_there() -> None:
    found = draft_difference(DRAFTS, [a_sample(draft_n=None), a_sample(draft_n=0)])
    assert found is not None
    assert (found.kind, found.phase) == (Kind.DRAFT_UNAVAILABLE, Phase.BENCHMARK)
    assert found.evidence == "no token was drafted in 2 requests"


def test_one_drafted_token_is_enough() -> None:
    assert draft_difference(DRAFTS, [a_sample(draft_n=None), a_sample(draft_n=1, draft_n_accepted=0)]) is None


def test_drafts_that_may_be_rare_are_not_missed() -> None:
    assert draft_difference(Asked(None, None, drafts=True), [a_sample(draft_n=0)]) is None
    assert draft_difference(DRAFTS, []) is None
