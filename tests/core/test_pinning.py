"""UUIDs hold the engine's names for the cards."""

from __future__ import annotations

import pytest

from tuner.core.pinning import ORDER, VISIBLE, pins

ALL = {"CUDA0": "GPU-a", "CUDA1": "GPU-b", "CUDA2": "GPU-c", "RPC0": None}


@pytest.mark.parametrize(
    ("used", "visible"),
    [
        (["CUDA0", "CUDA1"], "GPU-a,GPU-b"),
        (["CUDA1", "CUDA0"], "GPU-a,GPU-b"),
        (["CUDA0"], "GPU-a"),
        (["CUDA2", "RPC0"], "GPU-a,GPU-b,GPU-c"),  # unused cards before it count
    ],
)
def test_each_card_keeps_its_number(used: list[str], visible: str) -> None:
    assert pins(used, ALL) == {ORDER: "PCI_BUS_ID", VISIBLE: visible}


@pytest.mark.parametrize(
    ("used", "uuids"),
    [
        ([], ALL),
        (["RPC0", "Vulkan0"], ALL),
        (["CUDA0"], {"CUDA0": None}),
        (["CUDA1"], {"CUDA0": None, "CUDA1": "GPU-b"}),
        (["CUDA1"], {"CUDA1": "GPU-b"}),  # nobody says what CUDA0 was
        (["CUDA1"], {"CUDA0": "GPU-a", "CUDA1": "GPU-a"}),  # one card that plays two
        (["CUDA3"], ALL),
    ],
)
def test_nothing_is_pinned_where_a_card_is_not_known(used: list[str], uuids: dict[str, str | None]) -> None:
    assert pins(used, uuids) == {}
