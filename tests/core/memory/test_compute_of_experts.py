"""Compute buffers where experts lie on the host, against `llama-fit-params` of build 11434.

Cards were played by RPC devices of which the first was made to take a host's weights as CUDA does, which changes
the answer of one function of the back end: what is reserved is the scheduler's own.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from gguf import GGMLQuantizationType

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.core.memory.overrides import overrides_of
from tuner.core.memory.predict import Predictor
from tuner.core.memory.query import MemoryQuery
from tuner.core.rig import Device

#: 48 layers with 933 MiB of experts each, in matrices of 310.8 MiB.
MOE = Splits(
    shaped(
        Shape(
            "qwen3moe", n_layers=48, n_embd=2048, n_ff=768, n_head=32, n_head_kv=4, head_dim=128,
            n_vocab=151_936, n_mtp=0, n_experts=195, weight=GGMLQuantizationType.Q8_0,
        )
    )
)  # fmt: skip
CARDS = ("CUDA0", "CUDA1")
SERVERS = ("RPC0", "RPC1")


def reserved(names: tuple[str, str], n_cpu_moe: int, **changes: object) -> tuple[float, float, float]:
    """MiB of the two devices' compute buffers and of the host's."""
    query = MemoryQuery(names, "layer", (1, 1), 999, 8192, overrides=overrides_of({"n-cpu-moe": n_cpu_moe}))
    predictor = Predictor(MOE, tuple(Device(name, "card", 16_000, 16_000) for name in names))
    found = predictor.predict_query(replace(query, **changes))  # type: ignore[arg-type] # a test's own
    first, second = (need.compute for need in found.devices.values())
    return first, second, found.host_compute_mib


@pytest.mark.parametrize(
    ("n_cpu_moe", "first", "host"),
    [(0, 168, 72), (5, 378, 24), (27, 378, 24), (48, 378, 24)],
)
def test_first_card_holds_a_whole_matrix_of_experts_at_a_time(n_cpu_moe: int, first: int, host: int) -> None:
    found = reserved(CARDS, n_cpu_moe)
    assert (found[0], found[2]) == pytest.approx((first, host), abs=1)


@pytest.mark.parametrize(
    ("n_cpu_moe", "first", "host"), [(0, 168, 72), (5, 92, 84), (27, 56, 84), (48, 56, 84)]
)
def test_host_computes_experts_where_no_device_takes_them(n_cpu_moe: int, first: int, host: int) -> None:
    found = reserved(SERVERS, n_cpu_moe)
    assert (found[0], found[2]) == pytest.approx((first, host), abs=1)


@pytest.mark.parametrize("changes", [{"op_offload": False}, {"ubatch": 31}, {"mode": "tensor"}])
def test_no_card_takes_them_where_it_may_not_or_the_batch_is_small(changes: dict[str, object]) -> None:
    assert reserved(CARDS, 27, **changes) == reserved(SERVERS, 27, **changes)


def test_first_device_that_can_takes_them() -> None:
    first, second, _ = reserved(("RPC0", "CUDA0"), 48)
    assert second > first + 300


def test_card_without_experts_of_its_own_takes_less() -> None:
    assert reserved(CARDS, 48)[1] < reserved(CARDS, 27)[1]
