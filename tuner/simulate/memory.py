"""How much memory a played launch takes, and where it ends for lack of it.

Independent of how the tuner predicts memory, but for how the engine cuts tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from tuner.core.outcome import Kind, Outcome, Phase, Stage
from tuner.simulate.model import MIB
from tuner.simulate.parts import fractions
from tuner.simulate.setup import CACHE_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.simulate.parts import Parts
    from tuner.simulate.setup import Setup

RUNTIME_MIB, NCCL_MIB = 520.0, 750.0
#: MiB a token of ubatch at `compute_scale` 1: measured over `ubatch-size` 128 to 2048 on the pair.
_PLAIN, _FIRST, _LAST = 0.69, 1.23, 0.79
_MASK_BYTES, _COPIES = 2, 4
#: Of a layer's experts.
_MATRICES = 3
#: MiB a token of ubatch that a MTP context adds, at `compute_scale` 1.
_DRAFTING = 0.34


@dataclass(frozen=True, slots=True)
class Need:
    """MiB that a launch asks of each of its devices, by load step and in their order."""

    names: tuple[str, ...]
    rooms_mib: tuple[float, ...]
    stages: Mapping[Stage, tuple[float, ...]]
    host_mib: float = 0.0
    host_room_mib: float = inf

    @property
    def totals_mib(self) -> tuple[float, ...]:
        """All steps together, a device."""
        return tuple(map(sum, zip(*self.stages.values(), strict=True)))

    @property
    def fits(self) -> bool:
        """Whether every device has room, and the host."""
        return self.host_mib <= self.host_room_mib and all(
            total <= room for total, room in zip(self.totals_mib, self.rooms_mib, strict=True)
        )

    @property
    def buffers_mib(self) -> dict[str, float]:
        """What the engine's own lines would name, a device."""
        rows = [sizes for stage, sizes in self.stages.items() if stage is not Stage.RUNTIME]
        return dict(zip(self.names, map(sum, zip(*rows, strict=True)), strict=True))

    def failure(self) -> Outcome | None:
        """Out of memory at the first step that asks too much of a device; None where it fits."""
        if self.host_mib > self.host_room_mib:
            return Outcome(
                Kind.DEGRADED,
                phase=Phase.BENCHMARK,
                evidence=f"{self.host_mib:,.0f} MiB in {self.host_room_mib:,.0f} of RAM: it lives from disk",
            )
        asked = [0.0] * len(self.names)
        for stage, sizes in self.stages.items():
            for place, size in enumerate(sizes):
                asked[place] += size
                if size > 0 and asked[place] > self.rooms_mib[place]:
                    name = self.names[place]
                    late = stage is Stage.RUNTIME
                    return Outcome(
                        Kind.OUT_OF_MEMORY,
                        phase=Phase.WARMUP if late else Phase.LOAD,
                        stage=stage,
                        device=name,
                        requested_mib=size,
                        evidence=f"allocating {size:.2f} MiB on {name}: cudaMalloc failed: out of memory",
                    )
        return None


def need_of(parts: Parts, setup: Setup, host_room_mib: float = inf) -> Need:
    """What a launch asks for, in the order in which the engine asks.

    Args:
        parts: The model's.
        setup: How it is started.
        host_room_mib: What it can have of the host's memory.
    """
    tensor = setup.mode == "tensor"
    weights, kv, state, drafting = (_sliced if tensor else _dealt)(parts, setup)
    holds = [size > 0 for size in weights]
    compute = _compute(parts, setup, holds)
    runtime = RUNTIME_MIB + (NCCL_MIB if setup.nccl else 0.0)
    return Need(
        setup.names,
        tuple(float(device.room_mib) for device in setup.devices),
        {
            Stage.WEIGHTS: tuple(size / MIB for size in weights),
            Stage.KV: tuple(size / MIB for size in kv),
            Stage.RECURRENT: tuple(size / MIB for size in state),
            Stage.COMPUTE: compute,
            Stage.DRAFT: tuple(size / MIB for size in drafting),
            Stage.RUNTIME: (runtime,) * len(setup.devices),
        },
        host_mib=len(setup.in_ram) * parts.expert_bytes / MIB,
        host_room_mib=host_room_mib,
    )


Sizes = tuple[list[float], list[float], list[float], list[float]]


def _cache_bytes(parts: Parts, setup: Setup, type_k: str, type_v: str) -> tuple[float, float]:
    """Bytes of one layer's K and V."""
    elements = setup.cells * parts.model.kv_heads * parts.model.head_dim
    return elements * CACHE_BITS.get(type_k, 16.0) / 8, elements * CACHE_BITS.get(type_v, 16.0) / 8


def _dealt(parts: Parts, setup: Setup) -> Sizes:
    """Layer mode, and a device alone: whole units."""
    n, model = len(setup.devices), parts.model
    owners = parts.owners_of(setup)
    weights, kv, state, drafting = ([0.0] * n for _ in range(4))
    of_layer = sum(_cache_bytes(parts, setup, setup.type_k, setup.type_v))
    of_state = parts.state_bytes * setup.state_rows
    of_draft = sum(_cache_bytes(parts, setup, setup.draft_type_k, setup.draft_type_v))
    for unit, owner in enumerate(owners):
        if owner is None:
            continue
        if unit < model.layers:
            (kv if parts.attends[unit] else state)[owner] += of_layer if parts.attends[unit] else of_state
        elif unit < model.layers + model.mtp_layers:
            if not setup.drafts_mtp:
                continue
            drafting[owner] += of_draft
        weights[owner] += parts.unit_bytes[unit] - (parts.expert_bytes if unit in setup.in_ram else 0.0)
    if setup.drafts_mtp and owners[-1] is not None:
        drafting[owners[-1]] += _draft_compute(parts, setup)
    return weights, kv, state, drafting


def _sliced(parts: Parts, setup: Setup) -> Sizes:
    """Tensor mode: a slice of everything."""
    n, split = len(setup.devices), setup.split
    weights, kv, state, drafting = ([0.0] * n for _ in range(4))

    def add(into: list[float], cut_fractions: tuple[float, ...], size: float) -> None:
        for place, part in enumerate(cut_fractions):
            into[place] += size * part

    trunk, mtp = parts.weights(n)
    for cut, size in trunk.items():
        add(weights, fractions(cut, split), size)
    keys, values, states = parts.caches(n)
    of_keys, of_values = _cache_bytes(parts, setup, setup.type_k, setup.type_v)
    for cut, count in keys.items():
        add(kv, fractions(cut, split), count * of_keys)
    for cut, count in values.items():
        add(kv, fractions(cut, split), count * of_values)
    for cut, count in states.items():
        add(state, fractions(cut, split), count * parts.state_bytes * setup.state_rows)
    if setup.drafts_mtp:
        for cut, size in mtp.items():
            add(weights, fractions(cut, split), size)
        draft_keys, draft_values = _cache_bytes(parts, setup, setup.draft_type_k, setup.draft_type_v)
        for of_key, of_value in parts.mtp_caches(n):
            add(drafting, fractions(of_key, split), draft_keys)
            add(drafting, fractions(of_value, split), draft_values)
        add(drafting, (1.0,) * n, _draft_compute(parts, setup))
    return weights, kv, state, drafting


def _tokens(setup: Setup) -> int:
    return min(setup.ubatch, setup.ctx)


def _draft_compute(parts: Parts, setup: Setup) -> float:
    """Bytes of a MTP context's compute buffer."""
    pipeline = setup.mode == "layer" and len(setup.devices) > 1
    mask = _MASK_BYTES * setup.stream_cells * (_COPIES if pipeline else 1)
    unpacked = _unpacked(parts, setup, (setup.draft_type_k, setup.draft_type_v))
    return _tokens(setup) * (_DRAFTING * parts.model.compute_scale * MIB + mask) + unpacked * MIB


def _compute(parts: Parts, setup: Setup, holds: list[bool]) -> tuple[float, ...]:
    """MiB of the compute buffers: linear in the ubatch, and more where devices form a pipeline."""
    users = [place for place, used in enumerate(holds) if used]
    pipeline = setup.mode == "layer" and len(users) > 1 and not setup.in_ram
    scale = parts.model.compute_scale
    mask = setup.stream_cells * _MASK_BYTES * (_COPIES if pipeline else 1) / MIB
    if not setup.flash_attention:
        mask += setup.stream_cells * 4 * parts.file.n_head / MIB
    unpacked = _unpacked(parts, setup, (setup.type_k, setup.type_v))
    sizes = [0.0] * len(holds)
    for place in users:
        plain = _PLAIN if not pipeline else _LAST if place == users[-1] else _FIRST
        tokens = _tokens(setup) * (plain * scale + mask)
        sizes[place] = tokens + unpacked  # in tensor mode, too, each device unpacks into room for all heads
    if setup.in_ram and users and setup.devices[users[0]].is_cuda:
        sizes[users[0]] += parts.expert_bytes / _MATRICES / MIB  # one matrix at a time comes over the bus
    return tuple(sizes)


def _unpacked(parts: Parts, setup: Setup, kinds: tuple[str, str]) -> float:
    """MiB of one layer's quantised cache as f16: attention over many tokens reads it so."""
    if not parts.model.full_attn_layers:
        return 0.0
    whole = _cache_bytes(parts, setup, "f16", "f16")
    return sum(
        size / MIB
        for size, kind in zip(whole, kinds, strict=True)
        if CACHE_BITS.get(kind, 16.0) < CACHE_BITS["f16"]
    )
