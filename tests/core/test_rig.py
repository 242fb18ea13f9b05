"""Devices, and what makes them the same tomorrow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.rig import Device, Rig

CARD = Device("CUDA0", "NVIDIA GeForce RTX 3090", 24576, 24000, uuid="GPU-1")
RPC = Device("RPC0", "127.0.0.1:50052", 200, 200)


def test_a_card_is_its_uuid() -> None:
    assert CARD.identity == "GPU-1"
    assert replace(CARD, name="CUDA1").identity == "GPU-1"


def test_an_rpc_server_may_have_another_port_tomorrow() -> None:
    assert RPC.identity == replace(RPC, description="127.0.0.1:61000").identity == "RPC0:127.0.0.1"
    assert RPC.identity != replace(RPC, description="10.0.0.2:50052").identity


def test_a_rig_has_its_devices_in_order() -> None:
    rig = Rig((CARD, RPC))
    assert rig.names == ("CUDA0", "RPC0")
    assert rig.identity == ("GPU-1", "RPC0:127.0.0.1")
    assert rig.device("RPC0") is RPC
    with pytest.raises(KeyError, match="CUDA7"):
        rig.device("CUDA7")


def test_a_device_is_of_the_same_kind_in_another_machine() -> None:
    card = Device("CUDA0", "NVIDIA GeForce RTX 3090", 24_576, 24_000, uuid="GPU-1")
    assert card.kind == replace(card, uuid="GPU-2").kind == "NVIDIA GeForce RTX 3090"
    here, there = (Device("RPC0", address, 210, 210) for address in ("127.0.0.1:40447", "10.0.0.7:50052"))
    assert here.kind == there.kind == "RPC server"
    assert here.identity != there.identity
