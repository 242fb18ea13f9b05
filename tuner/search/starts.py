"""Candidates to begin with: the space's own, and commands that owners of such cards published.

Splits by memory or by speed and each device alone are no such candidates: the speed model knows them all, and
tries those that are likely to be good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.published import published_for
from tuner.core.space import Choice, Devices, FloatRange, InRam, IntRange, Split, broken_rule
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.core.rig import Device
    from tuner.search.coordinates import BoundSpace


def starting_candidates(bound: BoundSpace, devices: tuple[Device, ...]) -> list[tuple[str, Candidate]]:
    """What to try before the search proposes, with a word on why; each candidate once, none against a rule."""
    rows: list[tuple[str, Mapping[str, Value]]] = [(s.about, s.options) for s in bound.space.starts]
    rows += _published(bound, devices)
    found: dict[str, tuple[str, Candidate]] = {}
    for why, options in rows:
        candidate = complete(bound, options)
        if broken_rule(bound.space, candidate.options) is None:
            found.setdefault(candidate.key(), (why, candidate))
    return list(found.values())


def adopted(candidate: Candidate, bound: BoundSpace) -> Candidate | None:
    """What was best of another file or with another engine, in this study's space; None where that cannot have it.

    Args:
        candidate: Of another study.
        bound: This study's space on its rig.
    """
    options = {name: value for name, value in candidate.items if bound.space.parameter(name) is not None}
    if not set(candidate.devices) <= set(bound.devices):
        return None
    if not all(_is_possible(bound, name, value) for name, value in options.items()):
        return None
    found = complete(bound, options)
    return None if broken_rule(bound.space, found.options) is not None else found


def _published(bound: BoundSpace, devices: tuple[Device, ...]) -> list[tuple[str, Mapping[str, Value]]]:
    """What owners of the same cards have published, as far as the space has it, in the order of their split."""
    rows: list[tuple[str, Mapping[str, Value]]] = []
    for one in published_for([device.description for device in devices]):
        options = dict(one.options)
        if not all(_is_possible(bound, name, value) for name, value in options.items()):
            continue
        left = list(devices)
        order = []
        for card in one.cards:
            device = next(each for each in left if each.description.casefold().endswith(card.casefold()))
            left.remove(device)
            order.append(device.name)
        if bound.space.parameter("device") is not None:
            options["device"] = tuple(order)
        elif tuple(order) != bound.devices:
            continue
        rows.append((f"published by {one.source}: {one.claim}", options))
    return rows


def _is_possible(bound: BoundSpace, name: str, value: Value) -> bool:
    """Whether the space can have that value."""
    if name in bound.imposed:
        return bound.imposed[name] == value
    match bound.space.parameter(name):
        case Choice(choices=choices):
            return value in choices
        case IntRange(low=low, high=high):
            return isinstance(value, int) and low <= value <= high
        case FloatRange() | Split() | Devices() | InRam():
            return True
        case None:
            return bound.space.fixed.get(name) == value
