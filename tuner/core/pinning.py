"""The same cards tomorrow: the engine's names for them, held by the driver's UUIDs.

CUDA numbers the cards anew whenever one is added, taken out or hidden. A list of UUIDs in
`CUDA_VISIBLE_DEVICES` fixes which card is `CUDA0`, which is `CUDA1`, and so on: its order is theirs, and of a card
that is gone nothing takes the place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
_CUDA = re.compile(r"CUDA(\d+)")


def pins(used: Iterable[str], uuids: Mapping[str, str | None]) -> dict[str, str]:
    """Environment variables by which CUDA gives the used devices the names that they had.

    Args:
        used: Names of the devices that a command is for; those of other back ends need nothing.
        uuids: UUIDs of all devices that the engine listed, by name; None for one that the driver could not tell.

    Returns:
        The cards up to the last one that is used, unused ones between them too, since names are counted over them;
        nothing where no CUDA device is used, or where it cannot be said which card one of them is.
    """
    places = [place for name in used if (place := cuda_place(name)) is not None]
    if not places:
        return {}
    cards = [uuids.get(f"CUDA{place}") for place in range(max(places) + 1)]
    known = [card for card in cards if card is not None]
    if len(set(known)) < len(cards):
        return {}
    return {ORDER: "PCI_BUS_ID", VISIBLE: ",".join(known)}


def cuda_place(name: str) -> int | None:
    """The number of a CUDA device by its name; None for a device of another back end."""
    found = _CUDA.fullmatch(name)
    return None if found is None else int(found[1])
