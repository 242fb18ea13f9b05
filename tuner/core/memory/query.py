"""What of a command decides how much memory it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tuner.core.memory.overrides import overrides_of
from tuner.core.options import ALLREDUCE, BASE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.memory.overrides import Override
    from tuner.core.options import Value

#: Bits an element of a cache type; ggml-common.h, build 11434.
BITS = {
    "f32": 32.0, "f16": 16.0, "bf16": 16.0, "q8_0": 8.5,
    "q5_1": 6.0, "q5_0": 5.5, "q4_1": 5.0, "q4_0": 4.5, "iq4_nl": 4.5,
}  # fmt: skip

#: Kinds of drafts for which recurrent layers keep one state more for each drafted token.
_ROLLS_BACK = frozenset({"draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"})

_CELLS_STEP = 256


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """The part of a command that decides memory, every value explicit."""

    devices: tuple[str, ...]
    """The engine's names in the order of the split; empty for the host alone."""
    mode: str
    """`layer`, `tensor`, `row` or `none`."""
    split: tuple[int, ...]
    """One proportion a device; all 0 or empty: the engine's own, by free memory or (tensor) even."""
    gpu_layers: int
    n_ctx: int
    """Tokens, all slots together."""
    parallel: int = 1
    kv_unified: bool = False
    ubatch: int = 512
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attention: bool = True
    kv_offload: bool = True
    swa_full: bool = False
    spec: tuple[str, ...] = ()
    """Kinds of drafts; empty for none."""
    draft_depth: int = 0
    """Tokens drafted at most at a time."""
    draft_type_k: str = "f16"
    draft_type_v: str = "f16"
    draft_device: str | None = None
    draft_gpu_layers: int | None = None
    """Layers of the draft model that are offloaded; None for all."""
    overrides: tuple[Override, ...] = ()
    """Tensors that lie elsewhere than their layer; the first that matches counts."""
    op_offload: bool = True
    """Whether a card multiplies with weights in the host's memory where a batch is large enough."""
    nccl: bool = True
    """Whether reductions may go through NCCL, which takes buffers of its own."""

    @property
    def n_devices(self) -> int:
        """Devices that the model is dealt out to."""
        return len(self.devices)

    @property
    def pipelined(self) -> bool:
        """Whether the engine keeps several copies of what goes from device to device (facts of build 11434)."""
        return self.mode == "layer" and self.n_devices > 1 and self.kv_offload and not self.overrides

    @property
    def tokens(self) -> int:
        """Tokens that one graph computes at most."""
        return min(self.ubatch, self.n_ctx) if self.n_ctx else self.ubatch

    @property
    def mask_bytes(self) -> int:
        """Bytes a token of the attention's mask."""
        return 2 * self.cells

    @property
    def cells(self) -> int:
        """Cells of the KV cache a stream: each slot has a stream of its own unless the cache is unified."""
        whole = _padded(self.n_ctx)
        return whole if self.kv_unified or self.parallel <= 1 else _padded(whole // self.parallel)

    @property
    def streams(self) -> int:
        """Streams of the KV cache."""
        return 1 if self.kv_unified else max(self.parallel, 1)

    def window_cells(self, n_swa: int) -> int:
        """Cells a stream of a layer that attends to a window of `n_swa` tokens."""
        if self.swa_full:
            return self.cells
        slots = max(self.parallel, 1) if self.kv_unified else 1
        return _padded(min(self.cells, n_swa * slots + self.ubatch))

    @property
    def state_rows(self) -> int:
        """Rows of a recurrent layer's state: one a slot, and one more for each token that may be taken back."""
        back = self.draft_depth if _ROLLS_BACK & set(self.spec) else 0
        return max(self.parallel, 1) * (1 + back)


def bits(cache_type: str) -> float:
    """Bits an element; those of f16 for a type that is not known."""
    return BITS.get(cache_type, 16.0)


def query_of(options: Mapping[str, Value], devices: tuple[str, ...]) -> MemoryQuery:
    """The query of a candidate's options, or of a command's, by canonical names.

    Args:
        options: Canonical name to value; what is missing has the tuner's base value.
        devices: The engine's devices, where the options name none.
    """
    known: dict[str, Value] = {**BASE_OPTIONS, **options}
    named = known.get("device")
    chosen = cast("tuple[str, ...]", named) if isinstance(named, tuple) and named else devices
    mode = str(known["split-mode"])
    if mode == "none" or len(chosen) == 1:
        main = _whole(known.get("main-gpu"), 0)
        chosen, mode = (chosen[main : main + 1] or chosen[:1]), "none"
    kinds = tuple(kind for kind in str(known["spec-type"]).split(",") if kind not in {"none", ""})
    split = known.get("tensor-split")
    n_max = known.get("spec-draft-n-max")
    return MemoryQuery(
        devices=tuple(name for name in chosen if name != "none"),
        mode=mode,
        split=_fitted(cast("tuple[int, ...]", split) if isinstance(split, tuple) else (), len(chosen)),
        gpu_layers=_whole(known.get("gpu-layers"), 999),
        n_ctx=_whole(known.get("ctx-size"), 0),
        parallel=_whole(known.get("parallel"), 1),
        kv_unified=known.get("kv-unified") is True,
        ubatch=min(_whole(known["ubatch-size"], 512), _whole(known["batch-size"], 2048)),
        type_k=str(known["cache-type-k"]),
        type_v=str(known["cache-type-v"]),
        flash_attention=str(known["flash-attn"]) not in {"off", "false", "0", "disabled"},
        kv_offload=known.get("kv-offload") is not False,
        swa_full=known.get("swa-full") is True,
        spec=kinds,
        draft_depth=_whole(n_max, 3) if any(kind.startswith("draft-") for kind in kinds) else 0,
        draft_type_k=str(known.get("spec-draft-type-k") or "f16"),
        draft_type_v=str(known.get("spec-draft-type-v") or "f16"),
        draft_device=_text(known.get("spec-draft-device")),
        draft_gpu_layers=_optional(known.get("spec-draft-ngl")),
        overrides=overrides_of(known),
        op_offload=known.get("op-offload") is not False,
        nccl=str(known.get(ALLREDUCE) or "nccl") == "nccl",
    )


def _padded(tokens: int) -> int:
    return -(-tokens // _CELLS_STEP) * _CELLS_STEP


def _fitted(split: tuple[int, ...], n_devices: int) -> tuple[int, ...]:
    """A list of proportions as the engine keeps it: what is missing is 0, what is too much is dropped."""
    if not any(split[:n_devices]):
        return ()
    return (split + (0,) * n_devices)[:n_devices]


def _whole(value: Value | None, otherwise: int) -> int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(cast("float", value)) if number else otherwise


def _optional(value: Value | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Value | None) -> str | None:
    return value if isinstance(value, str) and value else None
