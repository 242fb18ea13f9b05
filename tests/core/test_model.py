"""What follows from a model's header."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.model import ModelFile, TensorInfo

#: Qwen3.6-27B's shape: one layer in four has a KV cache, and one layer only drafts.
MODEL = ModelFile(
    paths=("/models/m-00001-of-00002.gguf", "/models/m-00002-of-00002.gguf"),
    size_bytes=10_000,
    fingerprint="f",
    architecture="qwen35",
    name="M",
    n_layers=65,
    n_mtp_layers=1,
    n_ctx_train=262_144,
    n_embd=5120,
    n_head=24,
    n_head_kv=(0, 0, 0, 4) * 16 + (0,),
    head_dim_k=256,
    head_dim_v=256,
    sampling={},
    tensors=(TensorInfo("a", (2, 3), "F32", 24), TensorInfo("b", (32,), "Q8_0", 34)),
)


def test_the_engine_is_given_the_first_shard() -> None:
    assert MODEL.path == "/models/m-00001-of-00002.gguf"


def test_weights_are_the_sum_of_the_tensors() -> None:
    assert MODEL.weights_bytes == 58


def test_units_are_all_layers_and_the_output() -> None:
    assert MODEL.n_units == 66


@pytest.mark.parametrize(
    ("n_ctx", "bits", "mib"),
    # as the engine reported them: llama_kv_cache: size = ... MiB
    [(8192, 16.0, 512.0), (131_072, 8.5, 4352.0), (229_376, 8.5, 7616.0), (0, 16.0, 0.0)],
)
def test_the_cache_is_as_large_as_the_engine_says(n_ctx: int, bits: float, mib: float) -> None:
    assert MODEL.kv_bytes(n_ctx, bits, bits) / 2**20 == mib


def test_keys_and_values_may_have_their_own_types() -> None:
    both = MODEL.kv_bytes(8192, 16, 8.5)
    assert both == MODEL.kv_bytes(8192, 16, 0) + MODEL.kv_bytes(8192, 0, 8.5)


@pytest.mark.parametrize(
    ("architecture", "allowed"),
    [("qwen35", True), ("llama", True), ("lfm2", True), ("mamba", False), ("deepseek2", False)],
)
def test_some_architectures_refuse_tensor_mode(architecture: str, *, allowed: bool) -> None:
    assert replace(MODEL, architecture=architecture).allows_tensor_split is allowed


def test_devices_do_not_hold_the_input_embedding_unless_it_is_the_output_too() -> None:
    embedding, output = (
        TensorInfo("token_embd.weight", (9,), "F32", 100),
        TensorInfo("output.weight", (9,), "F32", 70),
    )
    assert replace(MODEL, tensors=(embedding, output)).offloaded_bytes == 70
    assert replace(MODEL, tensors=(embedding,)).offloaded_bytes == 100
