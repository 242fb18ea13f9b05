"""What differs from when it was tuned is named, and what does not matter is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.winners import a_best
from tuner.core.sameness import differences

USED = ("CUDA0", "CUDA1")


def now(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - rows of any part
    best = a_best()
    return {name: best[name] for name in ("engine", "devices", "model")} | changes


def device(at: int, **changes: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any field
    rows = [dict(row) for row in a_best()["devices"]]
    rows[at] |= changes
    return rows


def test_nothing_differs_where_nothing_has_changed() -> None:
    assert differences(a_best(), now(), USED) == []


@pytest.mark.parametrize(
    ("there", "part"),
    [
        (
            now(engine={"digest": "cd" * 32, "version": "version: 2"}),
            "engine: tuned for version: 0.6.0-dev (build 0) [abababababab], this is version: 2 [cdcdcdcdcdcd]",
        ),
        (
            now(model={"fingerprint": "g", "name": "Other", "size_bytes": 2**29}),
            "model: tuned for Qwen 27B (1.00 GiB, f), this is Other (0.50 GiB, g)",
        ),
        (now(devices=device(0)[:1]), "devices: CUDA1 (NVIDIA GeForce RTX 3090, GPU-3090b-2) is not here"),
        (
            now(devices=device(0, uuid="GPU-new")),
            "devices: CUDA0 was NVIDIA GeForce RTX 5080, GPU-5080a-1, and is NVIDIA GeForce RTX 5080, GPU-new",
        ),
        (
            now(devices=device(0, uuid=None, description="RTX 4090")),
            "devices: CUDA0 was NVIDIA GeForce RTX 5080, GPU-5080a-1, and is RTX 4090",
        ),
        (now(devices=device(0, total_mib=12000)), "devices: CUDA0 had 16,303 MiB, and has 12,000"),
    ],
)
def test_what_differs_is_named(there: dict[str, Any], part: str) -> None:
    assert differences(a_best(), there, USED) == [part]


def test_a_card_that_the_command_does_not_use_may_be_gone() -> None:
    assert differences(a_best(), now(devices=device(0)[:1]), ("CUDA0",)) == []


def test_a_driver_that_does_not_say_uuids_leaves_names_and_products() -> None:
    assert differences(a_best(), now(devices=device(0, uuid=None)), USED) == []


def test_ports_of_rpc_servers_may_change_and_hosts_not() -> None:
    best = a_best(devices=(("RPC0", "10.0.0.1:50052", None),))
    row = best["devices"][0]
    same = now(devices=[{**row, "description": "10.0.0.1:40000", "total_mib": 1}])
    assert differences(best, same, ("RPC0",)) == []
    other = now(devices=[{**row, "description": "10.0.0.2:50052"}])
    assert differences(best, other, ("RPC0",)) == ["devices: RPC0 was 10.0.0.1:50052, and is 10.0.0.2:50052"]
