"""Layer mode: whole layers and the output, dealt out to devices.

The rule is llama.cpp's (llama-model.cpp:1581-1601, build 11434): shares are normalised and added up in 32-bit
floats, and unit i of n goes to the first device whose cumulative share is greater than i/n. The last unit is
the output matrix. Many ratios are therefore one and the same split.
"""

from __future__ import annotations

import struct
from math import gcd


def layer_units(split: tuple[int, ...], n_units: int) -> tuple[int, ...]:
    """Units (layers, and the output as the last one) that each device gets.

    Args:
        split: Proportions, one a device, at least one of them above 0.
        n_units: Layers and one for the output, all of them offloaded.

    Returns:
        One count a device; they sum to `n_units`, and used as a split they give themselves.
    """
    cumulative = _cumulative_shares(split)
    counts = [0] * len(split)
    last = max(index for index, share in enumerate(split) if share > 0)
    for unit in range(n_units):
        position = float32(unit / n_units)
        device = next((i for i, share in enumerate(cumulative) if share > position), last)
        counts[device] += 1
    return tuple(counts)


def layer_owners(split: tuple[int, ...], n_units: int, gpu_layers: int) -> tuple[int | None, ...]:
    """The device of each unit, in the model's order; None for what stays on the host.

    Args:
        split: Proportions, one a device, at least one of them above 0; empty where there is no device.
        n_units: Layers and one for the output.
        gpu_layers: Units that are offloaded: the last ones, as `-ngl` counts them.
    """
    offloaded = min(max(gpu_layers, 0), n_units) if split else 0
    owners: list[int | None] = [None] * (n_units - offloaded)
    counts = layer_units(split, offloaded) if offloaded else ()
    for device, count in enumerate(counts):
        owners += [device] * count
    return tuple(owners)


def reduced(split: tuple[int, ...]) -> tuple[int, ...]:
    """The same proportions in the smallest whole numbers."""
    divisor = gcd(*split)
    return tuple(part // divisor for part in split)


def _cumulative_shares(split: tuple[int, ...]) -> list[float]:
    sums = []
    total = 0.0
    for part in split:
        total = float32(total + part)
        sums.append(total)
    return [float32(part / total) for part in sums]


def float32(value: float) -> float:
    """Rounded as the engine's `float` rounds."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
