"""Models as values, of any size, without a file."""

from __future__ import annotations

from types import MappingProxyType

from tuner.core.model import ModelFile, TensorInfo

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
