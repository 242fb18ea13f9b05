"""Tensors that a command puts elsewhere than their layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tuner.core.memory.overrides import Override, override_of, overrides_of

if TYPE_CHECKING:
    from tuner.core.options import Value


def where(name: str, **options: Value) -> str | None:
    """Where a tensor lies with options whose dashes are written as underscores; None for with its layer."""
    found = override_of(overrides_of({key.replace("_", "-"): value for key, value in options.items()}), name)
    return None if found is None else found.buffer


def test_cpu_moe_keeps_all_experts_on_the_host() -> None:
    assert where("blk.7.ffn_up_exps.weight", cpu_moe=True) == "CPU"
    assert where("blk.7.ffn_gate_up_exps.weight", cpu_moe=True) == "CPU"
    assert where("blk.7.ffn_up.weight", cpu_moe=True) is None
    assert where("blk.7.ffn_up_exps.weight", cpu_moe=False) is None


def test_n_cpu_moe_keeps_the_experts_of_the_first_layers_on_the_host() -> None:
    assert where("blk.1.ffn_down_exps.weight", n_cpu_moe=2) == "CPU"
    assert where("blk.2.ffn_down_exps.weight", n_cpu_moe=2) is None
    assert where("blk.11.ffn_down_exps.weight", n_cpu_moe=2) is None


def test_n_cpu_ffn_keeps_the_dense_layers_on_the_host() -> None:
    assert where("blk.0.ffn_gate.weight", n_cpu_ffn=1) == "CPU"
    assert where("blk.0.ffn_gate_inp.weight", n_cpu_ffn=1) is None
    assert where("blk.1.ffn_gate.weight", n_cpu_ffn=1) is None


@pytest.mark.parametrize("count", [0, -1, True])
def test_count_that_is_none_moves_nothing(count: int) -> None:
    assert overrides_of({"n-cpu-moe": count, "n-cpu-ffn": count}) == ()


def test_users_patterns_are_read_as_the_engine_reads_them() -> None:
    found = overrides_of({"override-tensor": r"a=CPU,b\d=CUDA0,c=d=CPU,e,(=CPU"})
    assert found == (Override("a", "CPU"), Override(r"b\d", "CUDA0"), Override("c", "d=CPU"))


def test_candidates_entries_are_patterns_of_experts() -> None:
    entries = ("CPU:0-1", "CUDA1:2-2")
    assert where("blk.1.ffn_up_exps.weight", override_tensor=entries) == "CPU"
    assert where("blk.2.ffn_up_exps.weight", override_tensor=entries) == "CUDA1"
    assert where("blk.2.ffn_up.weight", override_tensor=entries) is None


def test_first_pattern_that_matches_counts() -> None:
    assert where("blk.0.ffn_up_exps.weight", override_tensor="ffn_up=CUDA1,exps=CPU") == "CUDA1"
    assert where("blk.0.ffn_up_exps.weight", override_tensor="ffn_up=CUDA1", cpu_moe=True) == "CUDA1"
    assert where("blk.0.ffn_down_exps.weight", override_tensor="ffn_up=CUDA1", cpu_moe=True) == "CPU"


@pytest.mark.parametrize(
    ("buffer", "on_host"),
    [("CPU", True), ("CUDA_Host", True), ("CUDA0", False), ("RPC0[127.0.0.1:1]", False)],
)
def test_pinned_memory_is_the_hosts_too(buffer: str, *, on_host: bool) -> None:
    assert Override("x", buffer).on_host is on_host
