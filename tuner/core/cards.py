"""Memory bandwidths that makers publish for their cards, for a first guess of how fast one decodes.

Sources: the product pages and data sheets of NVIDIA, AMD and Intel. A decode step reaches 60 to 80 % of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: GB/s by name, the longer name first where one is a part of another.
PUBLISHED_GB_S: dict[str, float] = {
    "RTX PRO 6000": 1792, "RTX PRO 5000": 1344, "RTX PRO 4500": 896, "RTX PRO 4000": 672,
    "RTX 6000 Ada": 960, "RTX 5000 Ada": 576, "RTX 4500 Ada": 432, "RTX 4000 Ada": 360,
    "RTX A6000": 768, "RTX A5000": 768, "RTX A4500": 640, "RTX A4000": 448,
    "RTX 8000": 672, "RTX 6000": 672, "RTX 5000": 448, "RTX 4000": 416,
    "RTX 5090": 1792, "RTX 5080": 960, "RTX 5070 Ti": 896, "RTX 5070": 672, "RTX 5060 Ti": 448, "RTX 5060": 448,
    "RTX 4090": 1008, "RTX 4080 SUPER": 736, "RTX 4080": 717, "RTX 4070 Ti SUPER": 672, "RTX 4070 Ti": 504,
    "RTX 4070 SUPER": 504, "RTX 4070": 504, "RTX 4060 Ti": 288, "RTX 4060": 272,
    "RTX 3090 Ti": 1008, "RTX 3090": 936, "RTX 3080 Ti": 912, "RTX 3080": 760, "RTX 3070 Ti": 608,
    "RTX 3070": 448, "RTX 3060 Ti": 448, "RTX 3060": 360, "RTX 3050": 224,
    "RTX 2080 Ti": 616, "RTX 2080": 448, "RTX 2070": 448, "RTX 2060": 336,
    "GTX 1080 Ti": 484, "GTX 1080": 320, "GTX 1070": 256, "GTX 1060": 192, "TITAN RTX": 672, "TITAN V": 653,
    "Tesla P100": 732, "Tesla P40": 347, "Tesla T4": 320, "V100": 900, "A100": 1555, "A40": 696, "A10": 600,
    "L40S": 864, "L40": 864, "L4": 300, "H200": 4800, "H100": 3350, "P40": 347, "P100": 732, "T4": 320,
    "RX 9070 XT": 645, "RX 9070": 645, "RX 7900 XTX": 960, "RX 7900 XT": 800, "RX 7900 GRE": 576,
    "RX 7800 XT": 624, "RX 7700 XT": 432, "RX 6900 XT": 512, "RX 6800 XT": 512, "RX 6800": 512,
    "MI100": 1228, "MI60": 1024, "MI50": 1024, "MI25": 484, "W7900": 864, "W6800": 512,
    "Arc B580": 456, "Arc B570": 380, "Arc A770": 560, "Arc A750": 512,
}  # fmt: skip

_REACHED = 0.7
#: How sure the guess is, as a standard deviation of the logarithm: other users, clocks and kernels differ.
_KNOWN_SIGMA = 0.5


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """What a decode step reaches of a device's memory."""

    bytes_s: float
    sigma: float
    """How sure that is: the standard deviation of its logarithm."""


def decode_bandwidth(description: str) -> Bandwidth | None:
    """What a decode step is likely to reach of a device; None for one whose maker's figure is not known here.

    Args:
        description: What the engine says of the device, such as `NVIDIA GeForce RTX 3090`.
    """
    for name, published in sorted(PUBLISHED_GB_S.items(), key=lambda item: -len(item[0])):
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", description, re.IGNORECASE):
            return Bandwidth(published * 1e9 * _REACHED, _KNOWN_SIGMA)
    return None
