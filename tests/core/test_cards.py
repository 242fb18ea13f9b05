"""A first guess of how fast a card decodes."""

from __future__ import annotations

import pytest

from tuner.core.cards import PUBLISHED_GB_S, Bandwidth, decode_bandwidth


def reached_gb_s(description: str) -> float | None:
    found = decode_bandwidth(description)
    return None if found is None else found.bytes_s / 1e9


@pytest.mark.parametrize("name", PUBLISHED_GB_S)
def test_each_card_reaches_a_part_of_its_own_figure(name: str) -> None:
    found = decode_bandwidth(name)
    assert found is not None
    assert 0.6 <= found.bytes_s / 1e9 / PUBLISHED_GB_S[name] <= 0.8
    assert 0 < found.sigma < 1


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 3090 Ti", "RTX 3090 Ti"),
        ("NVIDIA GeForce RTX 4070", "RTX 4070"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti SUPER"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("Quadro RTX 6000", "RTX 6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("Tesla P40", "Tesla P40"),
        ("nvidia geforce rtx 5080", "RTX 5080"),
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", "RX 7900 XTX"),
        ("Intel(R) Arc(TM) A770 Graphics", None),
        ("Intel Arc A770 Graphics", "Arc A770"),
    ],
)
def test_a_card_is_known_by_its_own_name_and_by_no_part_of_it(description: str, name: str | None) -> None:
    assert reached_gb_s(description) == (None if name is None else reached_gb_s(name))


@pytest.mark.parametrize(
    "description", ["", "NVIDIA GeForce RTX 30900", "GRTX 3090", "10.0.0.2:50052", "llvmpipe", "NVIDIA L400"]
)
def test_of_other_devices_nothing_is_known(description: str) -> None:
    assert decode_bandwidth(description) is None


def test_a_faster_card_is_faster() -> None:
    order = ["RTX 3060", "RTX 3090", "RTX 5090", "H100", "H200"]
    found = [decode_bandwidth(name) or Bandwidth(0.0, 0.0) for name in order]
    assert [one.bytes_s for one in found] == sorted({one.bytes_s for one in found})
