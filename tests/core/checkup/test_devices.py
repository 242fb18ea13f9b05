"""Verdicts on the devices: identity, order, and what others hold on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.devices import device_checks, driver_check
from tuner.core.checkup.facts import CardFacts, DriverFacts
from tuner.core.rig import Device, DeviceUser

FAST = Device("CUDA0", "RTX 5080", 16303, 15900, uuid="GPU-5080", bus_id="00000000:02:00.0")
LARGE = Device("CUDA1", "RTX 3090", 24576, 24100, uuid="GPU-3090", bus_id="00000000:01:00.0")
FAST_CARD = CardFacts(1, "GPU-5080", "RTX 5080", "00000000:02:00.0", device="CUDA0", capability=(12, 0))
LARGE_CARD = CardFacts(0, "GPU-3090", "RTX 3090", "00000000:01:00.0", device="CUDA1", capability=(8, 6))
DRIVER = DriverFacts("580.1", (13, 0), (FAST_CARD, LARGE_CARD))


def of(checks: list[Check], topic: Topic, subject: str) -> Check:
    (found,) = (check for check in checks if (check.topic, check.subject) == (topic, subject))
    return found


def test_device_is_shown_with_bus_and_uuid() -> None:
    check = of(device_checks([FAST, LARGE], DRIVER), Topic.DEVICES, "CUDA0")
    assert check.level is Level.OK
    assert check.text == (
        "RTX 5080, 15,900 of 16,303 MiB free, compute 12.0, bus 02:00.0 (nvidia-smi: 1), GPU-5080"
    )


def test_engine_that_counts_otherwise_than_the_bus_is_a_trap() -> None:
    check = of(device_checks([FAST, LARGE], DRIVER), Topic.DEVICES, "order")
    assert check.level is Level.WARNING
    assert "engine's order, CUDA0, CUDA1; by the bus, as nvidia-smi counts, it is CUDA1, CUDA0" in check.text
    assert "-ts" in check.text
    assert "PCI_BUS_ID" in check.remedy


def test_engine_that_counts_as_the_bus_is_right() -> None:
    first = replace(LARGE_CARD, device="CUDA0")
    second = replace(FAST_CARD, device="CUDA1")
    devices = [replace(LARGE, name="CUDA0"), replace(FAST, name="CUDA1")]
    checks = device_checks(devices, replace(DRIVER, cards=(first, second)))
    assert of(checks, Topic.DEVICES, "order").level is Level.OK


def test_order_is_not_judged_for_one_card_or_without_an_engine() -> None:
    cards = (replace(FAST_CARD, device="GPU 1"), replace(LARGE_CARD, device="GPU 0"))
    devices = [replace(FAST, name="GPU 1"), replace(LARGE, name="GPU 0")]
    for checks in (
        device_checks([FAST], replace(DRIVER, cards=(FAST_CARD,))),
        device_checks(devices, replace(DRIVER, cards=cards)),
    ):
        assert not [check for check in checks if check.subject == "order"]


def test_cuda_device_that_is_no_known_card_is_unknown() -> None:
    check = of(device_checks([replace(FAST, uuid=None)], DriverFacts()), Topic.DEVICES, "CUDA0")
    assert check.level is Level.UNKNOWN
    assert "CUDA_DEVICE_ORDER" in check.remedy


def test_device_of_another_kind_needs_no_card() -> None:
    remote = Device("RPC0", "127.0.0.1:50052", 24105, 24105)
    checks = device_checks([remote], DriverFacts())
    assert of(checks, Topic.DEVICES, "RPC0").level is Level.OK
    assert of(checks, Topic.OTHERS, "RPC0").level is Level.UNKNOWN


def test_no_gpu_at_all_is_a_warning() -> None:
    (check,) = device_checks([], DriverFacts())
    assert check.level is Level.WARNING
    assert "--rpc" in check.remedy


def test_cards_that_the_engine_does_not_list_are_a_problem() -> None:
    (check,) = device_checks([], DRIVER)
    assert check.level is Level.PROBLEM
    assert "RTX 5080, RTX 3090" in check.text


def test_variable_that_hides_all_cards_is_named() -> None:
    (check,) = device_checks([], DRIVER, hidden_by="CUDA_VISIBLE_DEVICES=-1")
    assert "CUDA_VISIBLE_DEVICES=-1" in check.text
    assert "unset" in check.remedy


@pytest.mark.parametrize(("hidden_by", "level"), [(None, Level.WARNING), ("--devices CUDA0", Level.OK)])
def test_card_that_is_not_used_is_named(hidden_by: str | None, level: Level) -> None:
    cards = (FAST_CARD, replace(LARGE_CARD, device=None))
    check = of(
        device_checks([FAST], replace(DRIVER, cards=cards), hidden_by=hidden_by),
        Topic.DEVICES,
        "GPU 0 (RTX 3090)",
    )
    assert check.level is level


# --- others


def test_card_of_ones_own_is_said_to_be() -> None:
    check = of(device_checks([replace(FAST, used_by_others_mib=3)], DRIVER), Topic.OTHERS, "CUDA0")
    assert (check.level, check.text) == (Level.OK, "nobody else uses it")


def test_desktop_is_named_and_left_room() -> None:
    desktop = replace(
        FAST, users=(DeviceUser(77, "Xorg", 300), DeviceUser(78, "?", None)), used_by_others_mib=420
    )
    check = of(device_checks([desktop], DRIVER), Topic.OTHERS, "CUDA0")
    assert check.level is Level.OK
    assert check.text == ("others hold 420 MiB: Xorg (pid 77, 300 MiB), ? (pid 78); 420 MiB are kept free")


def test_heavy_use_by_others_is_a_warning() -> None:
    busy = replace(LARGE, users=(DeviceUser(9, "python", 8990),), used_by_others_mib=9000)
    check = of(device_checks([busy], DRIVER), Topic.OTHERS, "CUDA1")
    assert check.level is Level.WARNING
    assert "python (pid 9, 8,990 MiB)" in check.text


# --- the driver


def test_driver_is_shown_with_the_cuda_that_it_runs() -> None:
    assert driver_check(DRIVER).text == "NVIDIA 580.1, runs CUDA up to 13.0"


def test_no_driver_is_said_and_no_fault() -> None:
    check = driver_check(DriverFacts())
    assert check.level is Level.OK
    assert "no NVIDIA driver" in check.text
