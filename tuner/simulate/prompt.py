"""How long a played launch takes for a prompt, without noise.

A ubatch of u tokens costs a device `share · FLOP / rate · (u + small + u²/large)`: small ones keep it waiting,
large ones overlap less. In layer mode the devices are a pipeline of ubatches; in tensor mode they work together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.simulate.parts import fractions

if TYPE_CHECKING:
    from tuner.simulate.parts import Parts
    from tuner.simulate.played_rig import PlayedRig
    from tuner.simulate.setup import Setup

#: Fitted to prompts of 3,000 tokens at `ubatch-size` 128 to 2048 on the pair.
_LAYER_RATE, _LAYER_SMALL, _LAYER_LARGE = 0.76, 100.0, 20_000.0
_TENSOR_RATE, _TENSOR_SMALL, _TENSOR_LARGE = 0.9, 172.0, 7_800.0
#: Of one decode step's reductions: what a prompt's first ubatch waits for, and what each token adds.
_START, _PER_TOKEN = 9.3, 0.0046


def prompt_s(rig: PlayedRig, parts: Parts, setup: Setup, tokens: int) -> float:
    """Seconds until the prompt is read."""
    sizes = [setup.ubatch] * (tokens // setup.ubatch)
    if tokens % setup.ubatch:
        sizes.append(tokens % setup.ubatch)
    return (_sliced if setup.mode == "tensor" else _dealt)(rig, parts, setup, sizes)


def _dealt(rig: PlayedRig, parts: Parts, setup: Setup, ubatches: list[int]) -> float:
    # and so are experts that lie there: they come over the bus for every ubatch
    owners = [owner for unit, owner in enumerate(parts.owners_of(setup)) if unit < rig.model.layers]
    a_layer = rig.model.flops_tok / rig.model.layers
    stages = [
        owners.count(place) * a_layer / device.flops / _LAYER_RATE
        for place, device in enumerate(setup.devices)
    ]
    # a layer on the host is computed on the first device, after its weights have come over
    host = owners.count(None)
    carried = host * parts.unit_bytes[0] / rig.host.bw + len(setup.in_ram) * parts.expert_bytes / rig.host.bus
    stages[0] += host * a_layer / setup.devices[0].flops / _LAYER_RATE
    ends = [0.0] * len(stages)
    for tokens in ubatches:
        work = tokens + _LAYER_SMALL + tokens * tokens / _LAYER_LARGE
        before = 0.0
        for place, per_token in enumerate(stages):
            begin = max(before, ends[place])
            ends[place] = before = begin + work * per_token + (carried if place == 0 else 0.0)
    return ends[-1] + rig.link.hop_us / 1e6 * (len(stages) - 1)


def _sliced(rig: PlayedRig, parts: Parts, setup: Setup, ubatches: list[int]) -> float:
    n, split = len(setup.devices), setup.split
    shares = [0.0] * n
    whole = 0.0
    for cut, size in parts.weights(n)[0].items():
        if cut.elements:
            whole += size
            for place, part in enumerate(fractions(cut, split)):
                shares[place] += size * part
    slowest = max(share / whole / device.flops for share, device in zip(shares, setup.devices, strict=True))
    reductions = 2 * rig.model.layers * rig.link.reduce_us * setup.reduction / 1e6
    per_token = slowest * rig.model.flops_tok / _TENSOR_RATE + _PER_TOKEN * reductions
    work = sum(tokens + _TENSOR_SMALL + tokens * tokens / _TENSOR_LARGE for tokens in ubatches)
    return work * per_token + _START * reductions
