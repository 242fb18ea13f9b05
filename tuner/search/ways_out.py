"""What an owner can do where nothing in a space is expected to fit: in plain words, never only that it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.memory.host_fit import fewest_in_ram
from tuner.search.largest import largest_context, most_modest
from tuner.search.memory_gate import LEAST_CHANCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.candidate import Candidate
    from tuner.core.memory.predict import Predictor
    from tuner.search.coordinates import BoundSpace

_GIB_MIB = 1024


def ways_out(bound: BoundSpace, predictor: Predictor, room_mib: Mapping[str, float]) -> tuple[str, ...]:
    """Sentences, the least loss first; none where something in the space may fit.

    Args:
        bound: The space on the rig.
        predictor: Knows the model on the rig.
        room_mib: What may be used of each device, by name.
    """
    modest, chance = most_modest(bound, lambda one: predictor.predict(one.options), room_mib)
    if modest is None or chance >= LEAST_CHANCE:
        return ()
    context = bound.imposed.get("ctx-size")
    tokens = context if isinstance(context, int) else 0
    found = [
        f"Nothing in this space is expected to fit at {tokens:,} tokens: {_excess(modest, predictor, room_mib)}.",
        *_less_context(bound, predictor, room_mib, tokens),
        *_experts_in_ram(modest, bound, predictor, room_mib),
        *_smaller_file(modest, bound, predictor, room_mib),
    ]
    if bound.splits.host_parts.is_dense:
        found.append(
            "Or a mixture-of-experts model of that size: its experts can lie in host memory, and few of them are "
            "read for a token."
        )
    return tuple(found)


def _excess(modest: Candidate, predictor: Predictor, room_mib: Mapping[str, float]) -> str:
    """What the most modest candidate asks for beyond what there is."""
    need = predictor.predict(modest.options).devices
    over = {name: one.total - room_mib.get(name, 0.0) for name, one in need.items()}
    worst = max(over, key=over.__getitem__)
    return (
        f"the smallest configuration, {modest.summary()}, asks for {need[worst].total:,.0f} MiB of {worst}, and "
        f"{room_mib.get(worst, 0.0):,.0f} may be used"
    )


def _less_context(
    bound: BoundSpace, predictor: Predictor, room_mib: Mapping[str, float], tokens: int
) -> list[str]:
    found = largest_context(
        lambda context: replace(bound, imposed={**bound.imposed, "ctx-size": context}),
        lambda one: predictor.predict(one.options),
        room_mib,
        most_tokens=tokens,
    )
    if found is None:
        return []
    return [f"Less context: {found:,} tokens are expected to fit (--context {found})."]


def _experts_in_ram(
    modest: Candidate, bound: BoundSpace, predictor: Predictor, room_mib: Mapping[str, float]
) -> list[str]:
    experts = {} if bound.splits.host_parts.is_dense else bound.splits.host_parts.sizes
    everywhere = {**modest.options, "device": bound.devices}
    fit = fewest_in_ram(everywhere, predictor, bound.splits, room_mib) if experts else None
    if fit is None or not fit.host_layers:
        return []
    lie_mib = sum(experts[layer] for layer in fit.host_layers) / 2**20
    split = ",".join(map(str, fit.split))
    sentence = (
        f"Experts in host memory: those of {len(fit.host_layers)} of {len(experts)} layers, {lie_mib:,.0f} MiB, with "
        f"-ts {split} (`tuner check` writes the whole line)."
    )
    return [sentence]


def _smaller_file(
    modest: Candidate, bound: BoundSpace, predictor: Predictor, room_mib: Mapping[str, float]
) -> list[str]:
    need = predictor.predict(modest.options).devices
    names = bound.devices
    beside = max(one.total - one.weights for one in need.values())
    left_mib = sum(max(room_mib.get(name, 0.0) - beside, 0.0) for name in names)
    if left_mib <= 0:
        return []
    size_gib = bound.splits.model.size_bytes / 2**20 / _GIB_MIB
    sentence = (
        f"A smaller quantisation: a file of about {left_mib / _GIB_MIB:.1f} GiB fits with this context; this one "
        f"has {size_gib:.1f} GiB."
    )
    return [sentence]
