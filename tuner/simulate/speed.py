"""How fast a played launch decodes, without noise.

A step of m tokens takes `transfer · (1 + verify · (m - 1)) + fixed`. In layer mode the devices work one after the
other; in tensor mode they wait for the slowest after each part, so coarse cuts cost what they cost. A drafted
token reads the MTP layers and the output, wherever these lie: in layer mode on the last device, as a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.simulate.drafts import NO_DRAFTS, Cycle, cycle_of
from tuner.simulate.parts import fractions
from tuner.simulate.setup import CACHE_BITS

if TYPE_CHECKING:
    from tuner.simulate.parts import Parts
    from tuner.simulate.played_rig import PlayedModel, PlayedRig
    from tuner.simulate.setup import Setup

#: Factors of a step: measured, 59.7 with q8_0 and 58.8 with q4_0 where f16 makes 61.1.
_QUANTISED = 0.0012
_FLASH_OFF, _MIXED = 1.05, 4.0
#: What looking for repeated text costs where there is none.
_NGRAM = 1.015


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step takes."""

    transfer_s: float
    """Reading weights and caches; grows with the tokens that are verified."""
    fixed_s: float
    """Reductions, boundaries, overhead."""
    draft_s: float
    """A pass that drafts a token."""
    experts_s: float = 0.0
    """Reading the experts of one token, on devices and on the host."""

    def step_s(self, tokens: float, model: PlayedModel) -> float:
        """A step of so many tokens."""
        experts_s = self.experts_s * model.read_part(tokens)
        return self.transfer_s * (1 + model.verify * (tokens - 1)) + experts_s + self.fixed_s


def step_cost(rig: PlayedRig, parts: Parts, setup: Setup) -> StepCost:
    """What a step takes with the model placed so."""
    transfer, fixed = (_sliced if setup.mode == "tensor" else _dealt)(rig, parts, setup)
    factor = _factor(setup)
    fixed += rig.model.overhead_ms / 1e3 + len(setup.in_ram) * rig.host.sync_us / 1e6
    experts_s = _experts_s(rig, parts, setup) if rig.model.experts else 0.0
    return StepCost(transfer * factor, fixed, _draft_s(rig, parts, setup), experts_s)


def _experts_s(rig: PlayedRig, parts: Parts, setup: Setup) -> float:
    """Reading the experts of one token, layer after layer; in tensor mode the slowest device's part."""
    used = parts.expert_bytes * rig.model.used_part
    if setup.mode == "tensor":
        shares = [
            part / sum(setup.split) / device.bw
            for part, device in zip(setup.split, setup.devices, strict=True)
        ]
        return rig.model.layers * used * max(shares)
    host_bw = rig.host.speed(setup.threads)
    return sum(
        used / (host_bw if owner is None or layer in setup.in_ram else setup.devices[owner].bw)
        for layer, owner in enumerate(parts.owners_of(setup)[: rig.model.layers])
    )


def drafts_of(rig: PlayedRig, setup: Setup, prompt_class: str) -> Cycle:
    """What a draft yields for a class; n-grams alone find nothing in fresh text."""
    if not setup.n_max or not setup.drafts_mtp:
        return NO_DRAFTS
    return cycle_of(rig.model.accepted(prompt_class), setup.n_max, setup.p_min)


def cycle_s(rig: PlayedRig, setup: Setup, cost: StepCost, drafts: Cycle) -> float:
    """Seconds of a draft and its verification."""
    step = cost.step_s(1 + drafts.drafted, rig.model)
    step *= _NGRAM if any(kind.startswith("ngram-") for kind in setup.kinds) else 1.0
    return step + drafts.passes * cost.draft_s


def token_s(rig: PlayedRig, setup: Setup, cost: StepCost, prompt_class: str) -> float:
    """Seconds a generated token of a class."""
    drafts = drafts_of(rig, setup, prompt_class)
    return cycle_s(rig, setup, cost, drafts) / (1 + drafts.accepted)


def rate_tok_s(rig: PlayedRig, setup: Setup, cost: StepCost) -> float:
    """Generated tokens a second over the workload: the same number of tokens of each class."""
    classes = rig.workload.classes
    return len(classes) / sum(token_s(rig, setup, cost, one) for one in classes)


def _factor(setup: Setup) -> float:
    lost_bits = sum(max(16.0 - CACHE_BITS.get(kind, 16.0), 0.0) for kind in (setup.type_k, setup.type_v))
    factor = 1 + _QUANTISED * lost_bits
    if setup.type_k != setup.type_v:
        factor *= _MIXED  # most builds have no kernel for a pair of unlike types
    return factor if setup.flash_attention else factor * _FLASH_OFF


def _read_bytes(rig: PlayedRig, kind: str) -> float:
    """What a step reads of one layer's K or V cache."""
    elements = rig.workload.depth * rig.model.kv_heads * rig.model.head_dim
    return elements * CACHE_BITS.get(kind, 16.0) / 8


def _draft_s(rig: PlayedRig, parts: Parts, setup: Setup) -> float:
    model, n = rig.model, len(setup.devices)
    first = model.layers
    if setup.mode != "tensor":
        owners = parts.owners_of(setup)
        read_s = sum(
            size / (rig.host.bw if owner is None else setup.devices[owner].bw)
            for size, owner in zip(parts.unit_bytes[first:], owners[first:], strict=True)
        )
        return read_s + model.draft_ms / 1e3
    read_s = max(
        sum(size * fractions(cut, setup.split)[place] for cut, size in parts.drafting(n).items()) / device.bw
        for place, device in enumerate(setup.devices)
    )
    return read_s + (model.draft_ms + model.draft_sync_ms) / 1e3


def _dealt(rig: PlayedRig, parts: Parts, setup: Setup) -> tuple[float, float]:
    model = rig.model
    cache = _read_bytes(rig, setup.type_k) + _read_bytes(rig, setup.type_v)
    speeds = [device.bw for device in setup.devices]
    counts = [0] * len(speeds)
    transfer = 0.0
    boundaries, last = 0, parts.owners_of(setup)[0]
    for unit, owner in enumerate(parts.owners_of(setup)):
        if owner != last:
            boundaries, last = boundaries + 1, owner
        if owner is not None:
            counts[owner] += 1
        if model.layers <= unit < model.layers + model.mtp_layers:
            continue  # they only draft
        size = parts.unit_bytes[unit] + (cache if unit < model.layers and parts.attends[unit] else 0.0)
        size -= parts.expert_bytes if unit < model.layers else 0.0  # of these it reads a few
        transfer += size / (rig.host.bw if owner is None else speeds[owner])
    fastest = max(range(len(speeds)), key=lambda place: speeds[place])
    crowded = max(counts[fastest] - len(parts.unit_bytes) / len(speeds), 0.0) if len(speeds) > 1 else 0.0
    return transfer, (boundaries * rig.link.hop_us + crowded * rig.quirks.splits_cost_us) / 1e6


def _sliced(rig: PlayedRig, parts: Parts, setup: Setup) -> tuple[float, float]:
    n, split = len(setup.devices), setup.split
    keys, values = _read_bytes(rig, setup.type_k), _read_bytes(rig, setup.type_v)
    transfer = fixed = 0.0
    for block, count in parts.blocks(n):
        sizes = [0.0] * n
        rows = [*block.sizes, *zip(block.caches, (keys, values), strict=False)]
        for cut, size in rows:
            for place, part in enumerate(fractions(cut, split)):
                sizes[place] += size * part
        read_s, lag_s = max(
            (
                (size / device.bw, device.lag_us / 1e6)
                for size, device in zip(sizes, setup.devices, strict=True)
            ),
            key=sum,
        )
        transfer += count * read_s
        fixed += count * lag_s
    reductions = 2 * rig.model.layers * rig.link.reduce_us * setup.reduction / 1e6
    return transfer, fixed + reductions
