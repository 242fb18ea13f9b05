"""One tensor cut into a slice a device: at whole granules, the rest to the last device.

Source: the end of `llama_meta_device_get_split_state`, llama-model.cpp:847-862 of build 11434.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.assignment.layers import float32


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of elements along the axis that is cut."""

    elements: int
    granularity: int
    """A slice ends at a multiple of this."""
    repeats: int = 1
    """How often the run is there, cut alike each time."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a tensor is cut; without segments each device holds all of it."""

    segments: tuple[Segment, ...] = ()
    rotation: int = 0
    """The device that comes first."""

    @property
    def elements(self) -> int:
        """Elements along the axis, all segments together."""
        return sum(segment.elements * segment.repeats for segment in self.segments)

    def shares(self, split: tuple[int, ...], n_devices: int) -> tuple[int, ...]:
        """Elements that each device gets; their sum is `elements`.

        Args:
            split: Proportions, one a device; empty or all 0 for even slices.
            n_devices: Devices.
        """
        totals = [0] * n_devices
        sums = _running_sums(split, n_devices, self.rotation)
        for segment in self.segments:
            low = 0
            for place in range(n_devices):
                if place == n_devices - 1:
                    high = segment.elements
                elif sums[-1] == 0:
                    high = segment.elements * (place + 1) // n_devices
                else:
                    high = int(float32(float32(float32(segment.elements) * sums[place]) / sums[-1]))
                if place < n_devices - 1:
                    high -= high % segment.granularity
                totals[(place + self.rotation) % n_devices] += (high - low) * segment.repeats
                low = high
        return tuple(totals)


def _running_sums(split: tuple[int, ...], n_devices: int, rotation: int) -> list[float]:
    sums: list[float] = []
    total = 0.0
    for place in range(n_devices):
        part = split[(place + rotation) % n_devices] if split else 0
        total = float32(total + part)
        sums.append(total)
    return sums
