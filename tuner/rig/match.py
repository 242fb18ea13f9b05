"""Which card of the driver is which device of the engine.

The engine lists devices as CUDA numbers them, and says neither UUID nor bus. The driver lists cards by bus.
CUDA's numbers come from its order of all cards, of which `CUDA_VISIBLE_DEVICES` selects some:

- `CUDA_DEVICE_ORDER=PCI_BUS_ID`: the order is by bus, so a number is a card.
- a UUID in `CUDA_VISIBLE_DEVICES` is a card in any order.
- else the fastest card comes first by a rule of CUDA's own. Product name and memory then tell unlike cards
  apart, and cards that are alike keep the order of their buses among themselves.

A device that cannot be told for certain keeps `uuid=None`: better no telemetry than a neighbour's.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.rig import Device
    from tuner.rig.nvml import NvidiaGpu, NvmlReading

_CUDA_NAME = re.compile(r"CUDA(\d+)")
_UUID_PREFIXES = ("GPU-", "MIG-")
_TOTAL_TOLERANCE = 0.05
"""The driver counts memory that it reserves, CUDA does not: a few percent at most."""
_FREE_TOLERANCE_MIB = 1024
"""Two readings of one card's free memory differ by the CUDA context of the engine that made one of them."""


def match_devices(
    engine_devices: tuple[Device, ...], reading: NvmlReading, environ: Mapping[str, str]
) -> tuple[Device, ...]:
    """Add UUID, bus and foreign use to the engine's CUDA devices; others are returned as they are.

    Args:
        engine_devices: What the engine lists, or some of it.
        reading: What the driver says, read close to the engine's listing.
        environ: The environment that the engine ran with.

    Returns:
        The same devices in the same order; no card is given to two of them.
    """
    cards = _by_bus(reading.gpus)
    selection = _selection(environ)
    is_by_bus = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    found: dict[int, NvidiaGpu] = {}
    undecided: dict[int, int] = {}
    for place, device in enumerate(engine_devices):
        origin = _origin(device, selection)
        if isinstance(origin, int) and not is_by_bus:
            undecided[place] = origin
        elif origin is not None:
            card = _named(cards, origin) if isinstance(origin, str) else _at(cards, origin)
            if card is not None and not _contradicts(device, card):
                found[place] = card
    found |= _match_alike(engine_devices, undecided, cards)
    claims = Counter(card.index for card in found.values())
    return tuple(
        _with_card(device, found[place]) if place in found and claims[found[place].index] == 1 else device
        for place, device in enumerate(engine_devices)
    )


def _by_bus(gpus: tuple[NvidiaGpu, ...]) -> tuple[NvidiaGpu, ...]:
    """NVML's own order is by bus too, which serves where a card does not tell its bus."""
    if any(card.bus_id is None for card in gpus):
        return tuple(sorted(gpus, key=lambda card: card.index))
    return tuple(sorted(gpus, key=lambda card: (card.bus_id or "", card.index)))


def _selection(environ: Mapping[str, str]) -> tuple[int | str, ...] | None:
    """What `CUDA_VISIBLE_DEVICES` lists: positions and UUIDs, up to the first wrong entry as CUDA does."""
    text = environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    entries: list[int | str] = []
    for word in map(str.strip, text.split(",")):
        if not word.startswith(_UUID_PREFIXES) and not word.isdecimal():
            break
        entry = int(word) if word.isdecimal() else word
        if entry in entries:
            break
        entries.append(entry)
    return tuple(entries)


def _origin(device: Device, selection: tuple[int | str, ...] | None) -> int | str | None:
    """The device's position in CUDA's order of all cards, or its UUID; None for what CUDA does not have."""
    name = _CUDA_NAME.fullmatch(device.name)
    if name is None:
        return None
    ordinal = int(name[1])
    if selection is None:
        return ordinal
    return selection[ordinal] if ordinal < len(selection) else None


def _named(cards: Sequence[NvidiaGpu], uuid_start: str) -> NvidiaGpu | None:
    """The one card whose UUID starts so: CUDA takes any beginning that is unique."""
    named = [card for card in cards if card.uuid is not None and card.uuid.startswith(uuid_start)]
    return named[0] if len(named) == 1 else None


def _at(cards: Sequence[NvidiaGpu], position: int) -> NvidiaGpu | None:
    return cards[position] if position < len(cards) else None


def _match_alike(
    devices: tuple[Device, ...], position_by_place: Mapping[int, int], cards: tuple[NvidiaGpu, ...]
) -> dict[int, NvidiaGpu]:
    """Match by name and memory; among cards that are alike by free memory, else by bus."""
    groups: defaultdict[tuple[NvidiaGpu, ...], list[int]] = defaultdict(list)
    for place in position_by_place:
        alike = tuple(card for card in cards if _is_alike(devices[place], card))
        groups[alike].append(place)
    unlisted = set(range(len(cards))) - set(position_by_place.values())
    found: dict[int, NvidiaGpu] = {}
    for alike, places in groups.items():
        if len(places) > len(alike):
            continue
        by_free = _match_by_free_memory({place: devices[place] for place in places}, alike)
        positions = {place: position_by_place[place] for place in places}
        found |= by_free or _match_by_bus(positions, alike, unlisted)
    return found


def _match_by_free_memory(devices: Mapping[int, Device], alike: Sequence[NvidiaGpu]) -> dict[int, NvidiaGpu]:
    """The one way in which the engine's and the driver's free memory agree; nothing if there are more."""
    found: dict[int, NvidiaGpu] = {}
    for place, device in devices.items():
        close = [
            card
            for card in alike
            if card.free_mib is not None and abs(card.free_mib - device.free_mib) <= _FREE_TOLERANCE_MIB
        ]
        if len(close) != 1 or close[0] in found.values():
            return {}
        found[place] = close[0]
    return found


def _match_by_bus(
    position_by_place: Mapping[int, int], alike: Sequence[NvidiaGpu], unlisted: set[int]
) -> dict[int, NvidiaGpu]:
    """Match cards that are alike by their rank, as far as the positions that nobody listed leave it certain.

    Cards that the engine does not list (hidden by `CUDA_VISIBLE_DEVICES`, or left out by the caller) are at
    the unlisted positions, but which of them is where is unknown. A device's rank among its likes therefore
    has a lowest and a highest value, and is certain if these are equal.
    """
    found: dict[int, NvidiaGpu] = {}
    hidden = len(alike) - len(position_by_place)
    for place, position in position_by_place.items():
        listed_before = sum(other < position for other in position_by_place.values())
        unlisted_before = sum(other < position for other in unlisted)
        unlisted_after = len(unlisted) - unlisted_before
        lowest = listed_before + max(0, hidden - unlisted_after)
        highest = listed_before + min(hidden, unlisted_before)
        if lowest == highest:
            found[place] = alike[lowest]
    return found


def _is_alike(device: Device, card: NvidiaGpu) -> bool:
    return card.name is not None and not _contradicts(device, card)


def _contradicts(device: Device, card: NvidiaGpu) -> bool:
    """Whether what both say of name and memory rules out that they are the same."""
    if card.name is not None and _product(card.name) != _product(device.description):
        return True
    if card.total_mib is None:
        return False
    return abs(card.total_mib - device.total_mib) > _TOTAL_TOLERANCE * card.total_mib


def _product(name: str) -> str:
    """A product name to compare by: drivers have come with and without the maker in front."""
    return name.strip().casefold().removeprefix("nvidia ")


def _with_card(device: Device, card: NvidiaGpu) -> Device:
    return replace(
        device,
        uuid=card.uuid,
        bus_id=card.bus_id,
        users=card.users,
        used_by_others_mib=card.used_mib or 0,
    )
