"""Candidates to begin with where a model does not fit: from all in RAM to as little as our own balance finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.memory.host_fit import fewest_in_ram
from tuner.core.space import broken_rule
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.search.coordinates import BoundSpace
    from tuner.search.memory_gate import MemoryGate


def starts_in_ram(
    bound: BoundSpace, gate: MemoryGate, proposal: Mapping[str, Value] | None = None
) -> tuple[tuple[str, Candidate], ...]:
    """Each candidate once, with a word on why; none against a rule.

    Args:
        bound: The space on the rig.
        gate: Predicts memory.
        proposal: The split and what lies in RAM as the engine's own tool proposes; None for nothing.
    """
    parts = bound.splits.host_parts
    even: dict[str, Value] = {"split-mode": "layer" if len(bound.devices) > 1 else "none"}
    rows: list[tuple[str, Mapping[str, Value]]] = []
    plain = complete(bound, {})
    best = fewest_in_ram(
        {**plain.options, "device": bound.devices},
        gate.predictor,
        bound.splits,
        gate.room_mib,
        gate.host_room_mib,
    )
    if best is not None:
        changes = {name: value for name, value in best.changes.items() if value is not None}
        rows.append((f"the fewest layers in RAM: {len(best.host_layers)}", changes))
    if proposal is not None:
        rows.append(("what llama-fit-params proposes", proposal))
    rows.append((f"the {parts.what} of all layers in RAM", {**even, **parts.options(parts.every_layer)}))
    found: dict[str, tuple[str, Candidate]] = {}
    for why, options in rows:
        candidate = complete(bound, options)
        if broken_rule(bound.space, candidate.options) is None:
            found.setdefault(candidate.key(), (why, candidate))
    return tuple(found.values())
