"""What a model file says, its shards, and the facts that a file may lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gguf_files import Tensor, gguf_bytes, model_metadata, write_gguf, write_shards
from tests.support.gguf_reading import error_of, read_bytes
from tuner.engine.gguf import read_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.gguf_files import Metadata, Value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("models")


# --- what a sound file says


@pytest.mark.parametrize("version", [2, 3])
def test_fields_of_a_small_model(tmp_path: Path, version: int) -> None:
    path = write_gguf(tmp_path / "m.gguf", version=version)
    model = read_model(path)
    assert model.paths == (str(path),)
    assert model.size_bytes == path.stat().st_size
    assert (model.architecture, model.name) == ("llama", "Small Model")
    assert (model.n_layers, model.n_mtp_layers, model.n_ctx_train, model.n_embd) == (2, 0, 4096, 64)
    assert (model.n_head, model.n_head_kv, model.head_dim_k, model.head_dim_v) == (4, (2, 2), 16, 16)
    assert [tensor.name for tensor in model.tensors] == ["token_embd.weight", "output.weight"]
    assert model.weights_bytes == 512


def test_a_model_without_a_name_is_called_after_its_file(tmp_path: Path) -> None:
    metadata = model_metadata()
    del metadata["general.name"]
    assert read_model(write_gguf(tmp_path / "tiny.Q8_0.gguf", metadata)).name == "tiny.Q8_0"
    assert read_model(write_shards(tmp_path, "tiny", 2, metadata)[0]).name == "tiny"


def test_sampling_numbers_are_those_that_were_meant(tmp_path: Path) -> None:
    metadata = model_metadata()
    metadata |= {
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
        "general.sampling.sequence": "kpt",
    }
    assert read_model(write_gguf(tmp_path / "m.gguf", metadata)).sampling == {
        "temp": 0.6,
        "top_k": 20,
        "sequence": "kpt",
    }


def test_files_with_the_same_tokens_have_one_vocabulary(tmp_path: Path) -> None:
    """Whatever else they say, and wherever in the file it stands: a quantisation of a model is comparable with it."""
    tokens = [f"token{n}" for n in range(2000)]

    def vocabulary(name: str, tokens: list[str] | None, **numbers: Value) -> str:
        metadata: Metadata = model_metadata("llama", **numbers)
        if tokens is not None:
            metadata["tokenizer.ggml.tokens"] = tokens
        return read_model(write_gguf(tmp_path / name, metadata)).vocabulary

    one = vocabulary("q8.gguf", tokens)
    assert one
    assert vocabulary("q4.gguf", tokens, block_count=3, context_length=8192) == one
    assert vocabulary("longer.gguf", [*tokens, "more"]) != one
    assert vocabulary("other.gguf", [*tokens[1:], tokens[0]]) != one
    assert not vocabulary("without.gguf", None)


# --- which layers have a KV cache


def test_every_fourth_layer_of_a_hybrid_model_has_a_kv_cache_and_mtp_layers_have_none(tmp_path: Path) -> None:
    metadata = model_metadata("qwen35", block_count=9, nextn_predict_layers=1, full_attention_interval=4)
    model = read_model(write_gguf(tmp_path / "m.gguf", metadata))
    assert model.n_head_kv == (0, 0, 0, 2, 0, 0, 0, 2, 0)
    assert (model.n_layers, model.n_mtp_layers) == (9, 1)


@given(
    n_layers=st.integers(1, 20),
    n_mtp=st.integers(0, 3),
    interval=st.integers(1, 6),
    kv_heads=st.integers(0, 8),
)
def test_kv_heads_follow_interval_and_mtp(
    folder: Path, n_layers: int, n_mtp: int, interval: int, kv_heads: int
) -> None:
    n_all = n_layers + n_mtp
    metadata = model_metadata(
        "qwen35",
        block_count=n_all,
        nextn_predict_layers=n_mtp,
        full_attention_interval=interval,
        attention__head_count_kv=kv_heads,
    )
    model = read_bytes(folder, gguf_bytes(metadata))
    assert len(model.n_head_kv) == n_all
    assert sum(model.n_head_kv) == n_layers // interval * kv_heads
    assert all((i + 1) % interval == 0 and i < n_layers for i, heads in enumerate(model.n_head_kv) if heads)


@pytest.mark.parametrize(
    ("architecture", "numbers", "expected"),
    [
        ("llama", {}, (2, 2, 2, 2)),
        ("qwen35", {}, (0, 0, 0, 2)),  # the engine's default interval
        ("qwen35", {"attention__recurrent_layers": [1, 0, 1, 0]}, (0, 2, 0, 2)),
        ("lfm2", {"attention__head_count_kv": [0, 8, 0, 8]}, (0, 8, 0, 8)),
        ("gemma4", {"attention__shared_kv_layers": 1}, (2, 2, 2, 0)),
        ("glm4moe", {"nextn_predict_layers": 1}, (2, 2, 2, 0)),
        ("llama", {"nextn_predict_layers": 4}, (2, 2, 2, 2)),  # nothing but MTP layers
    ],
)
def test_layers_with_a_kv_cache(
    tmp_path: Path, architecture: str, numbers: dict[str, Value], expected: tuple[int, ...]
) -> None:
    metadata = model_metadata(architecture, **{"block_count": 4, **numbers})
    assert read_model(write_gguf(tmp_path / "m.gguf", metadata)).n_head_kv == expected


def test_kv_heads_default_to_the_heads_of_each_layer(tmp_path: Path) -> None:
    metadata = model_metadata(attention__head_count=[4, 8])
    del metadata["llama.attention.head_count_kv"]
    model = read_model(write_gguf(tmp_path / "m.gguf", metadata))
    assert (model.n_head, model.n_head_kv, model.head_dim_k) == (8, (4, 8), 16)


def test_latent_attention_caches_no_v(tmp_path: Path) -> None:
    metadata = model_metadata(
        "deepseek2",
        attention__head_count_kv=1,
        attention__key_length=576,
        attention__value_length=512,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
    )
    model = read_model(write_gguf(tmp_path / "m.gguf", metadata))
    assert (model.head_dim_k, model.head_dim_v) == (576, 0)


# --- shards


def test_a_split_model_is_read_as_one(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "big", 3)
    model = read_model(paths[0])
    assert model.paths == tuple(str(path) for path in paths)
    assert model.size_bytes == sum(path.stat().st_size for path in paths)
    assert [tensor.name for tensor in model.tensors] == ["blk.0.weight", "blk.1.weight", "blk.2.weight"]


def test_missing_shard_is_named(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "big", 4)
    paths[1].unlink()
    assert error_of(paths[0]).startswith(f"{paths[1]}: this shard is missing;")
    paths[3].unlink()
    assert "(and 1 more)" in error_of(paths[0])


def test_a_later_shard_says_which_to_give(tmp_path: Path) -> None:
    message = error_of(write_shards(tmp_path, "big", 3)[1])
    assert "shard 2 of 3; give the first one, big-00001-of-00003.gguf" in message


def test_a_renamed_shard_says_how_it_must_be_called(tmp_path: Path) -> None:
    renamed = write_shards(tmp_path, "big", 2)[0].rename(tmp_path / "mine.gguf")
    assert "rename it to ...-00001-of-00002.gguf" in error_of(renamed)


def test_swapped_shards_are_noticed(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "big", 3)
    paths[1].write_bytes(paths[2].read_bytes())
    assert "says shard 3, the name 2" in error_of(paths[0])


def test_shards_of_different_models_are_noticed(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "big", 2)
    split: Metadata = {"split.no": 1, "split.count": 2}
    write_gguf(paths[1], split, [Tensor("blk.0.weight")])
    assert "2 tensors are expected, its 2 shards hold 2, 1 of them different" in error_of(paths[0])
    write_gguf(paths[1], split, [Tensor("x"), Tensor("y")])
    assert "2 tensors are expected, its 2 shards hold 3" in error_of(paths[0])


def test_a_cut_shard_is_named(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "big", 2)
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    assert error_of(paths[0]).startswith(f"{paths[1]}: the file is cut off")


# --- facts that are missing or make no sense


@pytest.mark.parametrize(
    "key",
    [
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.attention.head_count",
    ],
)
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    metadata = model_metadata()
    del metadata[key]
    assert f"the header has no `{key}`; give a whole language model" in error_of(
        write_gguf(tmp_path / "m.gguf", metadata)
    )


def test_a_projector_is_called_one(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"general.architecture": "clip", "general.type": "mmproj"})
    assert "no `clip.block_count` (it calls itself 'mmproj')" in error_of(path)


def test_a_vocabulary_is_called_one(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"general.architecture": "llama"}, [])
    assert "no `llama.block_count` (it holds no tensors, only a vocabulary)" in error_of(path)
    assert "holds no tensors" in error_of(write_gguf(tmp_path / "m.gguf", model_metadata(), []))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"block_count": 0}, "`llama.block_count` is 0, not a whole number from 1 to 4096"),
        ({"block_count": (1 << 32) - 1}, "not a whole number from 1 to 4096"),
        ({"block_count": 2.0}, "`llama.block_count` is 2.0"),
        ({"block_count": "two"}, "`llama.block_count` is 'two'"),
        ({"nextn_predict_layers": 3}, "not a whole number from 0 to 2"),
        ({"full_attention_interval": 0}, "`llama.full_attention_interval` is 0"),
        ({"attention__head_count_kv": [1, 2, 3]}, "is (1, 2, 3), not one number for each of the 2 layers"),
        ({"attention__head_count_kv": [1, -2]}, "`llama.attention.head_count_kv` is -2"),
        ({"embedding_length": [64, 64]}, "`llama.embedding_length` is (64, 64)"),
    ],
)
def test_a_value_without_sense_is_named(tmp_path: Path, numbers: dict[str, Value], expected: str) -> None:
    assert expected in error_of(write_gguf(tmp_path / "m.gguf", model_metadata(**numbers)))
