"""Checks of NVIDIA's cards: how they hang on the board, reach each other, and are powered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.facts import PeerAccess, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.checkup.facts import CardFacts, CardPair, DriverFacts

#: GB/s a lane by PCIe generation, one way, rounded.
_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 1.0, 4: 2.0, 5: 4.0, 6: 8.0}
#: Below the bandwidth of Gen 3 x8 the reductions of tensor mode and long prompts wait for the link.
_SLOW_LINK_GB_S = 8.0
#: A few repeated transfers are normal; a bad riser or cable makes thousands.
_MANY_REPLAYS = 100
#: The driver keeps a little of the memory out of its total.
_WHOLE_BAR_SHARE = 0.95
#: Resizable BAR came with Ampere.
_FIRST_RESIZABLE = (8, 0)

_MEETING = {
    Topology.BOARD: "on one board",
    Topology.SWITCH: "behind one PCIe switch (PIX)",
    Topology.SWITCHES: "behind several PCIe switches (PXB)",
    Topology.BRIDGE: "meet at the CPU's PCIe bridge (PHB)",
    Topology.NODE: "meet inside one CPU (NODE)",
    Topology.SYSTEM: "on two CPUs (SYS)",
}


def card_checks(driver: DriverFacts) -> list[Check]:
    """Links, memory windows, power, and every pair of cards."""
    checks: list[Check] = []
    resting = [card.pcie_now[0] for card in driver.cards if card.pcie_now is not None and _rests(card)]
    if resting:
        checks.append(
            Check(
                Topic.PCIE,
                "",
                Level.OK,
                f"links rest at Gen {min(resting)}, some with fewer lanes; only a launch shows them under load",
            )
        )
    checks += [_link_check(card, driver.cards) for card in driver.cards]
    checks += [_window_check(card) for card in driver.cards]
    checks += [_power_check(card) for card in driver.cards]
    places = {card.index: place for place, card in enumerate(driver.cards)}
    for pair in driver.pairs:
        one, two = sorted((places[pair.first], places[pair.second]))
        checks.append(_pair_check(pair, driver.cards[one].label, driver.cards[two].label))
    return checks


def _rests(card: CardFacts) -> bool:
    """Whether the link is slower now than it can be; those of some servers' cards never are."""
    now, generation, width = card.pcie_now, card.pcie_max_generation, card.pcie_max_width
    if now is None or generation is None or width is None:
        return False
    return now[0] < generation or now[1] < width


def _link_check(card: CardFacts, cards: Sequence[CardFacts]) -> Check:
    generation, width = card.pcie_max_generation, card.pcie_max_width
    if generation is None or width is None:
        return Check(Topic.PCIE, card.label, Level.UNKNOWN, "the driver does not tell the link's maximum")
    said = f"up to Gen {generation} x{width}"
    if card.pcie_card_generation is not None and card.pcie_card_generation > generation:
        said += f" (the card alone: Gen {card.pcie_card_generation})"
    if card.pcie_now is not None and card.pcie_now[1] < width:
        said += f", now x{card.pcie_now[1]} at rest"
    faults = _link_faults(card, generation, width, cards)
    if not faults:
        return Check(Topic.PCIE, card.label, Level.OK, said)
    return Check(
        Topic.PCIE,
        card.label,
        Level.WARNING,
        f"{said}: {'; '.join(faults)}",
        "reseat the card, use a wider slot, or a better riser; in tensor mode every layer waits for this link",
    )


def _link_faults(card: CardFacts, generation: int, width: int, cards: Sequence[CardFacts]) -> list[str]:
    faults = []
    gb_s = _gb_s(generation, width)
    if gb_s is not None and gb_s < _SLOW_LINK_GB_S:
        faults.append(f"slow, {gb_s:g} GB/s at most")
    for twin in cards:
        if twin.name != card.name or twin.pcie_max_generation is None or twin.pcie_max_width is None:
            continue
        other_gb_s = _gb_s(twin.pcie_max_generation, twin.pcie_max_width)
        if gb_s is not None and other_gb_s is not None and other_gb_s > gb_s:
            faults.append(
                f"{twin.label}, the same card, has Gen {twin.pcie_max_generation} x{twin.pcie_max_width}"
            )
            break
    if card.pcie_replays is not None and card.pcie_replays >= _MANY_REPLAYS:
        faults.append(f"{card.pcie_replays:,} transfers had to be repeated, as over a bad riser or contact")
    return faults


def _gb_s(generation: int, width: int) -> float | None:
    lane = _LANE_GB_S.get(generation)
    return None if lane is None else lane * width


def _window_check(card: CardFacts) -> Check:
    """Whether the whole memory of a card can be reached from outside: Resizable BAR."""
    if card.bar1_mib is None or card.total_mib is None:
        return Check(Topic.PCIE, card.label, Level.UNKNOWN, "the driver does not tell the size of BAR1")
    if card.bar1_mib >= card.total_mib * _WHOLE_BAR_SHARE:
        return Check(Topic.PCIE, card.label, Level.OK, "Resizable BAR is on (BAR1 spans the memory)")
    said = f"BAR1 is {card.bar1_mib:,} of {card.total_mib:,} MiB"
    if card.capability is not None and card.capability < _FIRST_RESIZABLE:
        return Check(Topic.PCIE, card.label, Level.OK, f"{said}; cards before Ampere have no Resizable BAR")
    return Check(
        Topic.PCIE,
        card.label,
        Level.WARNING,
        f"Resizable BAR is off: {said}; peer access needs it",
        "BIOS: CSM off, Above 4G Decoding on, Re-Size BAR on; RTX 30: maybe a new VBIOS",
    )


def _power_check(card: CardFacts) -> Check:
    limit, default = card.power_limit_w, card.power_default_w
    if limit is None:
        return Check(Topic.POWER, card.label, Level.UNKNOWN, "the driver does not tell a power limit")
    said = f"limit {limit:.0f} W"
    if card.power_max_w is not None:
        said += f" (at most {card.power_max_w:.0f} W)"
    if default is not None and limit < default - 1:
        return Check(
            Topic.POWER,
            card.label,
            Level.WARNING,
            f"{said}, below its default of {default:.0f} W",
            f"results hold for this limit; if it is not meant: sudo nvidia-smi -i {card.index} -pl {default:.0f}",
        )
    if card.persistence is False:  # no fault: a run keeps the driver loaded
        said += "; persistence mode off"
    return Check(Topic.POWER, card.label, Level.OK, said)


def _pair_check(pair: CardPair, first: str, second: str) -> Check:
    subject = f"{first} - {second}"
    if pair.topology is None and pair.access is None and not pair.nvlink:
        return Check(Topic.PEERS, subject, Level.UNKNOWN, "the driver tells neither topology nor peer access")
    parts = [] if pair.topology is None else [_MEETING[pair.topology]]
    if pair.nvlink:
        parts.append("NVLink")
    match pair.access:
        case None:
            parts.append("whether peer access is possible is not told")
        case PeerAccess.POSSIBLE:
            parts.append("peer access possible; off unless --allow-p2p, since it can hang or corrupt")
        case _:
            parts.append(f"peer access {pair.access.value}: data goes through the host's memory")
    said = "; ".join(parts)
    if pair.topology is Topology.SYSTEM and not pair.nvlink:
        return Check(
            Topic.PEERS,
            subject,
            Level.WARNING,
            said,
            "put both into slots of one CPU: every reduction of tensor mode crosses between the CPUs",
        )
    return Check(Topic.PEERS, subject, Level.OK, said)
