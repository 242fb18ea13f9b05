"""Models as values, of any size, without a file."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gguf.constants import GGML_QUANT_SIZES

from tuner.core.assignment.splits import Splits
from tuner.core.model import ModelFile, StateShape, TensorInfo

if TYPE_CHECKING:
    from tests.support.shape_gguf import Shape

_MIB = 2**20


def model(
    *,
    architecture: str = "qwen35",
    weights_mib: int = 20_000,
    n_mtp: int = 0,
    heads: tuple[int, ...] = (4,) * 64,
) -> ModelFile:
    """64 heads of 4 x 128: 1 MiB of f16 cache for 4 tokens... 8,192 MiB for 16,384."""
    return ModelFile(
        paths=("/models/m.gguf",),
        size_bytes=weights_mib * _MIB,
        fingerprint="f",
        architecture=architecture,
        name="M",
        n_layers=len(heads),
        n_mtp_layers=n_mtp,
        n_ctx_train=262_144,
        n_embd=5120,
        n_head=24,
        n_head_kv=heads,
        head_dim_k=512,
        head_dim_v=512,
        sampling=MappingProxyType({}),
        tensors=(TensorInfo("w", (1,), "Q8_0", weights_mib * _MIB),),
    )


def splits_of(n_units: int) -> Splits:
    """Splits of a model of so many layers and the output; in tensor mode it has 4 heads and 136 blocks."""
    blocks = TensorInfo("blk.0.ffn_down.weight", (17_408, 5120), "Q8_0", 17_408 * 5120 // 32 * 34)
    return Splits(replace(model(heads=(4,) * (n_units - 1)), tensors=(blocks,)))


def shaped(shape: Shape) -> ModelFile:
    """What the header of `write_shape` reads as, without the file."""
    said: dict[str, Any] = dict(shape.metadata())
    tensors = tuple(
        TensorInfo(name, dimensions, kind.name, prod(dimensions) // block * block_bytes)
        for name, dimensions, kind in shape.tensors()
        for block, block_bytes in (GGML_QUANT_SIZES[kind],)
    )
    n_layers = shape.n_layers + shape.n_mtp
    interval = said.get("full_attention_interval", 1)
    recurrent = tuple(layer < shape.n_layers and (layer + 1) % interval != 0 for layer in range(n_layers))
    return ModelFile(
        paths=("/models/shape.gguf",),
        size_bytes=sum(tensor.size_bytes for tensor in tensors),
        fingerprint="f",
        architecture=shape.architecture,
        name="Shape",
        n_layers=n_layers,
        n_mtp_layers=said.get("nextn_predict_layers", 0),
        n_ctx_train=shape.n_ctx_train,
        n_embd=shape.n_embd,
        n_head=shape.n_head,
        n_head_kv=tuple(
            0 if layer >= shape.n_layers or recurrent[layer] else shape.n_head_kv for layer in range(n_layers)
        ),
        head_dim_k=shape.head_dim,
        head_dim_v=shape.head_dim,
        sampling=MappingProxyType({}),
        tensors=tensors,
        heads=(shape.n_head,) * n_layers,
        kv_heads=(shape.n_head_kv,) * n_layers,
        recurrent=recurrent,
        state=StateShape(
            conv_kernel=said.get("ssm.conv_kernel", 0),
            inner_size=said.get("ssm.inner_size", 0),
            state_size=said.get("ssm.state_size", 0),
            group_count=said.get("ssm.group_count", 0),
            time_step_rank=said.get("ssm.time_step_rank", 0),
        ),
        n_expert_used=said.get("expert_used_count", 0),
    )
