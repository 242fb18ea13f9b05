"""Verdicts on links, memory windows, power, and pairs of cards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.checkup.cards import card_checks
from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.facts import CardFacts, CardPair, DriverFacts, PeerAccess, Topology

CARD = CardFacts(
    index=0,
    name="RTX 3090",
    device="CUDA0",
    total_mib=24576,
    capability=(8, 6),
    pcie_max_generation=4,
    pcie_card_generation=4,
    pcie_max_width=16,
    pcie_now=(1, 16),
    pcie_replays=0,
    bar1_mib=32768,
    power_limit_w=350,
    power_default_w=350,
    power_max_w=366,
    persistence=True,
)


def of(topic: Topic, *cards: CardFacts, pairs: tuple[CardPair, ...] = ()) -> list[Check]:
    """The checks of that topic that are about a card or pair."""
    checks = card_checks(DriverFacts(cards=cards, pairs=pairs))
    return [check for check in checks if check.topic is topic and check.subject]


def link(card: CardFacts, *others: CardFacts) -> Check:
    return of(Topic.PCIE, card, *others)[0]


def window(card: CardFacts) -> Check:
    return of(Topic.PCIE, card)[1]


# --- links


def test_no_card_has_no_check() -> None:
    assert card_checks(DriverFacts()) == []


def test_only_a_launch_shows_a_link_under_load() -> None:
    first = card_checks(DriverFacts(cards=(CARD,)))[0]
    assert (first.topic, first.level) == (Topic.PCIE, Level.OK)
    assert first.text.startswith("links rest at Gen 1")
    assert "only a launch shows" in first.text


@pytest.mark.parametrize("now", [(4, 16), None])
def test_link_that_does_not_rest_is_not_said_to(now: tuple[int, int] | None) -> None:
    checks = card_checks(DriverFacts(cards=(replace(CARD, pcie_now=now),)))
    assert not [check for check in checks if "links rest" in check.text]


@pytest.mark.parametrize(
    ("now", "said"),
    [((1, 16), "up to Gen 4 x16"), ((1, 1), "up to Gen 4 x16, now x1 at rest"), (None, "up to Gen 4 x16")],
)
def test_link_at_rest_is_no_warning(now: tuple[int, int] | None, said: str) -> None:
    check = link(replace(CARD, pcie_now=now))
    assert (check.level, check.text) == (Level.OK, said)


def test_slot_that_is_slower_than_its_card_is_said() -> None:
    check = link(replace(CARD, pcie_card_generation=5))
    assert check.text == "up to Gen 4 x16 (the card alone: Gen 5)"
    assert check.level is Level.OK


@pytest.mark.parametrize(
    ("generation", "width", "level"),
    [
        (3, 8, Level.OK),
        (4, 4, Level.OK),
        (3, 4, Level.WARNING),
        (4, 1, Level.WARNING),
        (5, 1, Level.WARNING),
        (9, 1, Level.OK),  # a generation to come is not judged
    ],
)
def test_link_is_slow_below_what_gen_3_x8_moves(generation: int, width: int, level: Level) -> None:
    assert link(replace(CARD, pcie_max_generation=generation, pcie_max_width=width)).level is level


def test_link_that_is_narrower_than_that_of_an_equal_card_is_a_warning() -> None:
    narrow = replace(CARD, index=1, device="CUDA1", pcie_max_width=8)
    check = link(narrow, CARD)
    assert check.level is Level.WARNING
    assert "CUDA0, the same card, has Gen 4 x16" in check.text
    assert "riser" in check.remedy
    assert link(CARD, narrow).level is Level.OK
    assert link(narrow, replace(CARD, name="RTX 4090")).level is Level.OK


@pytest.mark.parametrize(("replays", "level"), [(3, Level.OK), (48_211, Level.WARNING), (None, Level.OK)])
def test_many_repeated_transfers_tell_a_bad_contact(replays: int | None, level: Level) -> None:
    check = link(replace(CARD, pcie_replays=replays))
    assert check.level is level
    assert ("48,211 transfers had to be repeated" in check.text) is (level is Level.WARNING)


@pytest.mark.parametrize(
    "card",
    [replace(CARD, pcie_max_generation=None), replace(CARD, pcie_max_width=None)],
    ids=["generation", "width"],
)
def test_link_that_the_driver_does_not_tell_is_unknown(card: CardFacts) -> None:
    assert link(card).level is Level.UNKNOWN


# --- Resizable BAR


@pytest.mark.parametrize("bar1_mib", [24576, 32768, 23900])
def test_window_as_large_as_the_memory_is_resizable_bar(bar1_mib: int) -> None:
    assert window(replace(CARD, bar1_mib=bar1_mib)).level is Level.OK


def test_small_window_names_the_items_of_the_bios() -> None:
    check = window(replace(CARD, bar1_mib=256))
    assert check.level is Level.WARNING
    assert "256 of 24,576 MiB" in check.text
    for item in ("CSM off", "Above 4G Decoding", "Re-Size BAR"):
        assert item in check.remedy


def test_card_that_is_older_than_resizable_bar_is_not_blamed() -> None:
    assert window(replace(CARD, bar1_mib=256, capability=(7, 5))).level is Level.OK


@pytest.mark.parametrize(
    "card", [replace(CARD, bar1_mib=None), replace(CARD, total_mib=None)], ids=["BAR1", "memory"]
)
def test_window_that_the_driver_does_not_tell_is_unknown(card: CardFacts) -> None:
    assert window(card).level is Level.UNKNOWN


# --- power


def test_power_limit_below_its_default_is_a_warning() -> None:
    (check,) = of(Topic.POWER, replace(CARD, power_limit_w=280.0))
    assert check.level is Level.WARNING
    assert "limit 280 W (at most 366 W), below its default of 350 W" in check.text
    assert check.remedy.endswith("nvidia-smi -i 0 -pl 350")


def test_power_limit_at_its_default_is_right_with_or_without_persistence() -> None:
    assert of(Topic.POWER, CARD)[0].text == "limit 350 W (at most 366 W)"
    (check,) = of(Topic.POWER, replace(CARD, persistence=False, power_max_w=None, power_default_w=None))
    assert check.level is Level.OK
    assert check.text.endswith("persistence mode off")


def test_power_that_the_driver_does_not_tell_is_unknown() -> None:
    assert of(Topic.POWER, replace(CARD, power_limit_w=None))[0].level is Level.UNKNOWN


# --- pairs


def pair(
    topology: Topology | None = None, access: PeerAccess | None = None, *, nvlink: bool | None = None
) -> Check:
    other = replace(CARD, index=1, device="CUDA1")
    (check,) = of(Topic.PEERS, CARD, other, pairs=(CardPair(0, 1, topology, access, nvlink),))
    return check


def test_pair_without_peer_access_goes_through_the_host() -> None:
    check = pair(topology=Topology.BRIDGE, access=PeerAccess.CHIPSET, nvlink=False)
    assert (check.level, check.subject) == (Level.OK, "CUDA0 - CUDA1")
    assert (
        "(PHB); peer access not supported by the chipset: data goes through the host's memory" in check.text
    )


def test_peer_access_is_off_unless_asked_for() -> None:
    check = pair(topology=Topology.SWITCH, access=PeerAccess.POSSIBLE)
    assert "peer access possible; off unless --allow-p2p" in check.text


@pytest.mark.parametrize(("nvlink", "level"), [(False, Level.WARNING), (True, Level.OK)])
def test_cards_on_two_cpus_are_far_apart_unless_they_have_nvlink(*, nvlink: bool, level: Level) -> None:
    assert pair(topology=Topology.SYSTEM, access=PeerAccess.NO, nvlink=nvlink).level is level


@pytest.mark.parametrize("topology", list(Topology))
def test_every_topology_has_words(topology: Topology) -> None:
    assert topology.value.split()[-1] in pair(topology=topology).text


def test_pair_that_the_driver_tells_nothing_of_is_unknown() -> None:
    assert pair().level is Level.UNKNOWN


def test_pair_is_named_in_the_order_of_the_devices() -> None:
    first, second = replace(CARD, index=1), replace(CARD, index=0, device="CUDA1")
    (check,) = of(Topic.PEERS, first, second, pairs=(CardPair(0, 1, Topology.NODE),))
    assert check.subject == "CUDA0 - CUDA1"
