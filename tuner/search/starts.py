"""Candidates to begin with: the space's own, even and memory-proportional splits, and each device alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.space import Choice, broken_rule
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.core.rig import Device
    from tuner.search.coordinates import BoundSpace


def starting_candidates(bound: BoundSpace, devices: tuple[Device, ...]) -> list[tuple[str, Candidate]]:
    """What to try before a sampler proposes, with a word on why; each candidate once, none against a rule."""
    rows: list[tuple[str, Mapping[str, Value]]] = [(s.about, s.options) for s in bound.space.starts]
    rows += [(why, options) for why, options in _general(bound, devices)]
    found: dict[str, tuple[str, Candidate]] = {}
    for why, options in rows:
        candidate = complete(bound, options)
        if broken_rule(bound.space, candidate.options) is None:
            found.setdefault(candidate.key(), (why, candidate))
    return list(found.values())


def _general(bound: BoundSpace, devices: tuple[Device, ...]) -> list[tuple[str, Mapping[str, Value]]]:
    mode = bound.space.parameter("split-mode")
    modes = mode.choices if isinstance(mode, Choice) else (bound.space.fixed.get("split-mode", "layer"),)
    rows: list[tuple[str, Mapping[str, Value]]] = []
    if len(devices) > 1 and bound.space.parameter("tensor-split") is not None:
        free = tuple(max(device.free_mib // 256, 1) for device in devices)
        rows += [
            (f"split as memory is free, {one}", {"split-mode": one, "tensor-split": free})
            for one in modes
            if one in {"layer", "tensor"}
        ]
    if "none" in modes:
        rows += [
            (f"{device.name} alone", {"split-mode": "none", "device": (device.name,)}) for device in devices
        ]
    return rows
