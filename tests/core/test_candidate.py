"""Candidates: equal where their options are, whole in JSON, short for people."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, candidates, option_sets
from tuner.core.candidate import Candidate, format_value
from tuner.core.options import OPTIONS, Value


@PROPERTY
@given(candidates)
def test_json_gives_back_an_equal_candidate(candidate: Candidate) -> None:
    again = Candidate.from_json(json.loads(json.dumps(candidate.to_json())))
    assert again == candidate
    assert again.key() == candidate.key()


@PROPERTY
@given(st.data(), option_sets)
def test_the_order_of_options_does_not_matter(data: st.DataObject, options: dict[str, Value]) -> None:
    shuffled = dict(data.draw(st.permutations(list(options.items()))))
    assert Candidate.of(shuffled) == Candidate.of(options)
    assert Candidate.of(shuffled).key() == Candidate.of(options).key()


@PROPERTY
@given(candidates, candidates)
def test_keys_are_equal_for_equal_candidates_only(one: Candidate, other: Candidate) -> None:
    assert (one.key() == other.key()) == (one == other)


@PROPERTY
@given(candidates)
def test_options_stand_in_the_order_of_a_command_line(candidate: Candidate) -> None:
    names = [name for name, _ in candidate.items]
    flags = [name for name in names if name in OPTIONS]
    assert flags == [name for name in OPTIONS if name in flags]
    assert names == flags + sorted(set(names) - set(flags))


@PROPERTY
@given(candidates, option_sets)
def test_changes_replace_and_add(candidate: Candidate, changes: dict[str, Value]) -> None:
    changed = candidate.with_options(changes)
    assert changed.options == {**candidate.options, **changes}


def test_options_are_a_copy() -> None:
    candidate = Candidate.of({"ubatch-size": 512})
    candidate.options["ubatch-size"] = 1
    assert candidate.get("ubatch-size") == 512
    assert candidate.get("batch-size") is None


def test_devices_and_split_are_empty_where_it_does_not_say() -> None:
    assert Candidate.of({}).devices == ()
    assert Candidate.of({}).split == ()
    candidate = Candidate.of({"device": ("CUDA1", "CUDA0"), "tensor-split": (3, 2)})
    assert (candidate.devices, candidate.split) == (("CUDA1", "CUDA0"), (3, 2))


@pytest.mark.parametrize(
    ("options", "depth"),
    [
        ({}, 0),
        ({"spec-type": "none", "spec-draft-n-max": 4}, 0),
        ({"spec-type": "ngram-mod", "spec-draft-n-max": 4}, 0),
        ({"spec-type": "draft-mtp", "spec-draft-n-max": 4}, 4),
        ({"spec-type": "draft-simple", "spec-draft-n-max": 7}, 7),
        ({"spec-type": "ngram-mod,draft-mtp", "spec-draft-n-max": 2}, 2),
        ({"spec-type": "draft-mtp"}, 0),
        ({"spec-draft-n-max": 4}, 0),
    ],
)
def test_draft_depth_is_that_of_a_model_that_drafts(options: dict[str, Value], depth: int) -> None:
    assert Candidate.of(options).draft_depth == depth


def test_an_empty_environment_variable_is_not_set() -> None:
    candidate = Candidate.of({"GGML_CUDA_P2P": "", "GGML_CUDA_ALLREDUCE": "nccl", "fit": "off"})
    assert candidate.environment == {"GGML_CUDA_ALLREDUCE": "nccl"}


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        (
            {
                "split-mode": "layer",
                "tensor-split": (33, 33),
                "ubatch-size": 512,
                "flash-attn": "off",
                "cache-type-k": "f16",
                "cache-type-v": "f16",
            },
            "layer · 33,33 · ub 512 · kv f16 · fa off",
        ),
        (
            {
                "split-mode": "tensor",
                "tensor-split": (2, 3),
                "ubatch-size": 512,
                "cache-type-k": "q8_0",
                "cache-type-v": "q8_0",
                "spec-type": "draft-mtp",
                "spec-draft-n-max": 3,
            },
            "tensor · 2,3 · ub 512 · kv q8_0 · draft-mtp n-max 3",
        ),
        (
            {
                "split-mode": "none",
                "device": ("CUDA1",),
                "ubatch-size": 128,
                "cache-type-k": "f16",
                "cache-type-v": "q8_0",
                "spec-type": "none",
            },
            "none · CUDA1 · ub 128 · kv f16/q8_0",
        ),
        (
            {
                "split-mode": "layer",
                "ubatch-size": 64,
                "cache-type-k": "f16",
                "cache-type-v": "f16",
                "spec-type": "ngram-mod",
            },
            "layer · ub 64 · kv f16 · ngram-mod",
        ),
        (
            {
                "device": ("CUDA1", "CUDA0"),
                "split-mode": "layer",
                "tensor-split": (1, 65),
                "batch-size": 4096,
                "ubatch-size": 2048,
                "cache-type-k": "f16",
                "cache-type-v": "f16",
                "kv-unified": True,
                "spec-type": "draft-mtp",
                "spec-draft-n-max": 5,
                "spec-draft-p-min": 0.75,
                "spec-draft-type-k": "q8_0",
                "spec-draft-type-v": "q8_0",
            },
            (
                "layer · 1,65 on CUDA1,CUDA0 · ub 2048 of 4096 · kv f16 unified · "
                "draft-mtp n-max 5 p-min 0.75 kv q8_0"
            ),
        ),
        (
            {
                "device": ("CUDA0", "CUDA1"),
                "split-mode": "tensor",
                "tensor-split": (1, 1),
                "batch-size": 2048,
                "ubatch-size": 512,
                "cache-type-k": "f16",
                "cache-type-v": "f16",
                "kv-unified": False,
                "spec-type": "draft-mtp",
                "spec-draft-n-max": 2,
                "spec-draft-p-min": 0,
                "spec-draft-type-k": "f16",
                "spec-draft-type-v": "f16",
                "GGML_CUDA_ALLREDUCE": "internal",
                "GGML_CUDA_P2P": "1",
            },
            "tensor · 1,1 · ub 512 · kv f16 · draft-mtp n-max 2 · allreduce internal · GGML_CUDA_P2P=1",
        ),
        (
            {"device": ("CUDA0", "CUDA2"), "tensor-split": (1, 1), "ubatch-size": 512},
            "1,1 on CUDA0,CUDA2 · ub 512 · kv None",
        ),
        ({"ubatch-size": 512, "cpu-moe": True}, "all experts in RAM · ub 512 · kv None"),
        ({"ubatch-size": 512, "n-cpu-moe": 4}, "experts of 0-3 in RAM · ub 512 · kv None"),
        (
            {"ubatch-size": 512, "override-tensor": ("CPU:2-3", "CUDA1:4-4", "CPU:9-9")},
            "experts of 2-3, 9-9 in RAM · ub 512 · kv None",
        ),
        ({"ubatch-size": 512, "n-cpu-moe": 0, "cpu-moe": False}, "ub 512 · kv None"),
        (
            {"ubatch-size": 512, "gpu-layers": 20, "threads": 4, "threads-batch": 8, "no-host": True},
            "ngl 20 · ub 512 · kv None · threads 4 · threads-batch 8 · no-host",
        ),
        ({"ubatch-size": 512, "gpu-layers": 999, "no-host": False}, "ub 512 · kv None"),
    ],
)
def test_a_summary_tells_candidates_apart(options: dict[str, Value], summary: str) -> None:
    assert Candidate.of(options).summary() == summary


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("tensor-split", (24, 7), "24,7"),
        ("device", ("CUDA1", "CUDA0"), "CUDA1,CUDA0"),
        ("kv-unified", True, "on"),
        ("kv-unified", False, "off"),
        ("spec-draft-p-min", 0.15000000000000002, "0.15"),
        ("spec-draft-p-min", 0.0, "0"),
        ("ubatch-size", 512, "512"),
        ("cache-type-k", "q8_0", "q8_0"),
        ("GGML_CUDA_ALLREDUCE", "nccl", "nccl"),
    ],
)
def test_values_as_on_a_command_line(name: str, value: Value, text: str) -> None:
    assert format_value(name, value) == text
