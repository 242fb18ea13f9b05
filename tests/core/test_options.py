"""The options that a candidate can have."""

from __future__ import annotations

import pytest

from tuner.core.options import BASE_OPTIONS, DRAFT_OPTIONS, OPTIONS, ValueType, is_environment, option_names

_TYPES: dict[ValueType, type] = {
    ValueType.TEXT: str,
    ValueType.INTEGER: int,
    ValueType.NUMBER: float,
    ValueType.SWITCH: bool,
}


def test_names_are_long_flags_without_dashes() -> None:
    assert all(name == option.name for name, option in OPTIONS.items())
    assert all(not name.startswith("-") and name == name.lower() and "_" not in name for name in OPTIONS)
    assert option_names() == tuple(OPTIONS)


@pytest.mark.parametrize("name", sorted(BASE_OPTIONS))
def test_what_is_always_passed_has_the_right_type(name: str) -> None:
    assert type(BASE_OPTIONS[name]) is _TYPES[OPTIONS[name].value_type]


def test_the_kind_of_drafts_itself_is_no_draft_option() -> None:
    assert "spec-type" not in DRAFT_OPTIONS
    assert {"spec-draft-n-max", "spec-ngram-mod-n-min"} <= DRAFT_OPTIONS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GGML_CUDA_ALLREDUCE", True),
        ("NCCL_P2P_DISABLE", True),
        ("CUDA_SCALE_LAUNCH_QUEUES", True),
        ("LLAMA_ARG_CTX_SIZE", False),
        ("PATH", False),
        ("ggml_cuda_p2p", False),
        ("GGML_", False),
        ("GGML_CUDA P2P", False),
    ],
)
def test_variables_of_the_server_are_in_capitals(name: str, *, expected: bool) -> None:
    assert is_environment(name) is expected
