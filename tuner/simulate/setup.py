"""What of a candidate's options a played launch depends on, every value explicit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from tuner.core.host_parts import HostParts
from tuner.core.options import ALLREDUCE, BASE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.options import Value
    from tuner.simulate.played_rig import PlayedDevice, PlayedRig

#: Bits an element of a cache.
CACHE_BITS = {
    "f32": 32.0, "f16": 16.0, "bf16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5, "q4_1": 5.0,
    "q4_0": 4.5, "iq4_nl": 4.5,
}  # fmt: skip
_CELLS_STEP = 256
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Setup:
    """How a server is started."""

    devices: tuple[PlayedDevice, ...]
    """In the split's order."""
    mode: str
    split: tuple[int, ...]
    """One part a device."""
    gpu_layers: int
    ctx: int
    parallel: int
    unified: bool
    ubatch: int
    type_k: str
    type_v: str
    flash_attention: bool
    kinds: frozenset[str]
    """Kinds of drafts."""
    n_max: int
    """Tokens drafted at most at a time; 0 where no layer or model drafts."""
    p_min: float
    draft_type_k: str
    draft_type_v: str
    nccl: bool
    reduction: float
    """Factor of a reduction's time."""
    in_ram: frozenset[int] = frozenset()
    """Layers whose experts lie in the host's memory."""
    threads: int | None = None
    """Of the host's computation; None for as many as it has cores."""

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names."""
        return tuple(device.name for device in self.devices)

    @property
    def drafts_mtp(self) -> bool:
        """Whether the model's own MTP layers draft."""
        return "draft-mtp" in self.kinds

    @property
    def cells(self) -> int:
        """Cells of the KV cache, all streams together."""
        if self.unified or self.parallel <= 1:
            return _padded(self.ctx)
        return _padded(self.ctx // self.parallel) * self.parallel

    @property
    def stream_cells(self) -> int:
        """Cells that one sequence can see."""
        return self.cells if self.unified else self.cells // max(self.parallel, 1)

    @property
    def state_rows(self) -> int:
        """Recurrent states: one a slot, and one for each token that may be taken back."""
        return max(self.parallel, 1) * (1 + self.n_max)


def setup_of(rig: PlayedRig, options: Mapping[str, Value]) -> Setup:
    """What some options come to on a rig.

    Raises:
        ValueError: They name a device that the rig does not have.
    """
    known: dict[str, Value] = {**BASE_OPTIONS, **options}
    named = known.get("device")
    names = cast("tuple[str, ...]", named) if isinstance(named, tuple) and named else rig.names
    mode = str(known["split-mode"])
    if mode == "none" or len(names) == 1:
        names, mode = names[:1], "none"
    devices = tuple(rig.device(name) for name in names)
    kinds = frozenset(str(known["spec-type"]).split(",")) - {"none", ""}
    drafts = any(kind.startswith("draft-") for kind in kinds)
    nccl, reduction = _reductions(rig, devices, known)
    return Setup(
        devices=devices,
        mode=mode,
        split=_split(devices, mode, known.get("tensor-split")),
        gpu_layers=cast("int", known["gpu-layers"]),
        ctx=cast("int", known.get("ctx-size") or rig.workload.ctx),
        parallel=cast("int", known["parallel"]),
        unified=known["kv-unified"] is True,
        ubatch=min(cast("int", known["ubatch-size"]), cast("int", known["batch-size"])),
        type_k=str(known["cache-type-k"]),
        type_v=str(known["cache-type-v"]),
        flash_attention=known["flash-attn"] != "off",
        kinds=kinds,
        n_max=cast("int", known.get("spec-draft-n-max", _DEPTH)) if drafts else 0,
        p_min=float(cast("float", known.get("spec-draft-p-min", 0.0))),
        draft_type_k=str(known.get("spec-draft-type-k", "f16")),
        draft_type_v=str(known.get("spec-draft-type-v", "f16")),
        nccl=nccl and mode == "tensor",
        reduction=reduction,
        in_ram=frozenset(_host_parts(rig.model.layers).in_ram(known) or ())
        if rig.model.experts
        else frozenset(),
        threads=threads if isinstance(threads := known.get("threads"), int) else None,
    )


@lru_cache(maxsize=64)
def _host_parts(n_layers: int) -> HostParts:
    """What can lie in RAM of a mixture of experts that is alike in all layers."""
    layers = range(n_layers)
    return HostParts(MappingProxyType(dict.fromkeys(layers, 1)), tuple(layers), is_dense=False)


def _split(devices: tuple[PlayedDevice, ...], mode: str, given: Value | None) -> tuple[int, ...]:
    """The split given, else the engine's own: even in tensor mode, as memory is free in layer mode."""
    if mode == "none":
        return (1,)
    parts = tuple(int(part) for part in given[: len(devices)]) if isinstance(given, tuple) else ()
    if any(parts):
        return parts + (0,) * (len(devices) - len(parts))
    if mode == "tensor":
        return (1,) * len(devices)
    return tuple(max(device.room_mib, 1) for device in devices)


#: `none` reduces through host memory: measured at 47.7 tok/s where NCCL makes 55.7, 3 ms more in 5.4.
_THROUGH_HOST = 1.56


def _reductions(
    rig: PlayedRig, devices: tuple[PlayedDevice, ...], options: Mapping[str, Value]
) -> tuple[bool, float]:
    """Whether NCCL is used, and the factor of a reduction's time."""
    how = str(options.get(ALLREDUCE) or "nccl")
    nccl = how == "nccl" and all(device.is_cuda for device in devices)
    factor = 1.0 if nccl else rig.link.internal * (_THROUGH_HOST if how == "none" else 1.0)
    if str(options.get("GGML_CUDA_P2P") or "0") != "0":
        factor *= rig.link.p2p
    return nccl, factor


def _padded(tokens: int) -> int:
    return -(-tokens // _CELLS_STEP) * _CELLS_STEP
