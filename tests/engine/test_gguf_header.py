"""Files as bytes: what is stepped over, what is refused, and that no damage does anything else."""

from __future__ import annotations

import math
import os
import struct
import time
import tracemalloc
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import gguf_files as files
from tests.support.gguf_files import Tensor, gguf_bytes, model_metadata, write_gguf
from tests.support.gguf_reading import error_of, read_bytes
from tuner.engine.gguf import read_model
from tuner.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

SOUND = gguf_bytes(
    {
        **model_metadata("qwen35", block_count=5, nextn_predict_layers=1, attention__head_count_kv=[2] * 5),
        "general.sampling.temp": 0.6,
        "tokenizer.ggml.tokens": ["a", "bc", "def"],
        "split.count": 1,
    }
)
EXTREMES = (0, 1, 0x7F, 0xFF, 0xFFFF, 1 << 28, (1 << 31) - 1, 1 << 32, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("models")


# --- sound files


def test_a_file_of_the_gguf_package_reads_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(3)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv([2, 0, 1])
    writer.add_key_length(24)
    writer.add_value_length(8)
    writer.add_float32("general.sampling.top_p", 0.95)
    writer.add_int32("general.sampling.top_k", 20)
    writer.add_token_list([f"token{i}" for i in range(1000)])
    writer.add_token_scores([0.5] * 5000)
    writer.add_chat_template("x" * 5000)
    writer.add_tensor("a", np.zeros((2, 64), np.float32))
    writer.add_tensor("b", np.zeros((3, 68), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = read_model(path)
    assert (model.n_head_kv, model.head_dim_k, model.head_dim_v) == ((2, 0, 1), 24, 8)
    assert model.sampling == {"top_p": 0.95, "top_k": 20}
    theirs = [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, t.n_bytes)
        for t in gguf.GGUFReader(path).tensors
    ]
    assert [(t.name, t.shape, t.type_name, t.size_bytes) for t in model.tensors] == theirs


@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_sampling_numbers_are_exact_in_32_bits(folder: Path, value: float) -> None:
    model = read_bytes(folder, gguf_bytes(model_metadata() | {"general.sampling.temp": value}))
    read = model.sampling["temp"]
    assert struct.pack("<f", read) == struct.pack("<f", value)
    assert len(repr(read)) <= len(repr(value))


def test_a_tensor_of_an_unknown_type_reaches_to_the_next_one(tmp_path: Path) -> None:
    tensors = [Tensor("a", kind=999, size_bytes=96), Tensor("b"), Tensor("c", kind=998, size_bytes=64)]
    read = read_model(write_gguf(tmp_path / "m.gguf", tensors=tensors)).tensors
    assert [(t.type_name, t.size_bytes) for t in read] == [("type 999", 96), ("F32", 256), ("type 998", 64)]


# --- files that are no model


def test_missing_file(tmp_path: Path) -> None:
    assert "there is no such file" in error_of(tmp_path / "none.gguf")


def test_directory(tmp_path: Path) -> None:
    (tmp_path / "d.gguf").mkdir()
    assert "directory; give the .gguf file in it" in error_of(tmp_path / "d.gguf")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.gguf")
    assert "no regular file" in error_of(tmp_path / "p.gguf")


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    assert "cannot be read (Too many levels of symbolic links)" in error_of(loop)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "the file is empty"),
        (b"GG", "no GGUF: it starts with b'GG'"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"PK\x03\x04", "PyTorch checkpoint"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "GGUF version 4"),
        (b"GGUF" + struct.pack("<IQQ", 0, 0, 0), "GGUF version 0"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), f"claims {1 << 60} tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), f"{1 << 60} metadata entries"),
        (
            b"GGUF" + struct.pack("<IQ", 3, 0),
            "the file ends in the first bytes: 24 bytes are needed, it has 16",
        ),
    ],
)
def test_a_file_that_is_no_gguf_says_what_it_is(tmp_path: Path, raw: bytes, expected: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    assert expected in error_of(path)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"general.architecture": 7}, "`general.architecture` is 7, not a text"),
        ({"general.alignment": 24}, "`general.alignment` is 24, no power of two"),
        ({"general.sampling.temp": math.inf}, "`general.sampling.temp` is inf, no number"),
        ({"x": struct.pack("<I", 13)}, "the value of `x` has the unknown type 13"),
        ({"x": struct.pack("<IIQ", files.ARRAY, files.ARRAY, 1)}, "has the unknown type 9"),
        ({"x": struct.pack("<IQ", files.STRING, 1 << 62)}, "the file ends in the value of `x`"),
        ({"x": struct.pack("<IIQ", files.ARRAY, files.U64, 1 << 62)}, "the file ends in the value of `x`"),
        ({"x": struct.pack("<IIQ", files.ARRAY, files.STRING, 1 << 62)}, "strings, 4194304 are allowed"),
    ],
)
def test_a_damaged_entry_is_named(tmp_path: Path, metadata: files.Metadata, expected: str) -> None:
    assert expected in error_of(write_gguf(tmp_path / "m.gguf", model_metadata() | metadata))


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ([Tensor("a"), Tensor("a")], "the tensor table has a name twice"),
        ([Tensor("a", (128,)), Tensor("b")], "tensor `a` needs 512 bytes, but `b` begins after 256"),
        ([Tensor("a", (1, 1, 1, 1, 64))], "tensor `a` claims 5 dimensions, 4 are allowed"),
        ([Tensor("a", (33,), kind=8)], "rows of 33 elements, no multiple of Q8_0's 32"),
        ([Tensor("n" * 64)], "claims a name of 64 bytes, 63 are allowed"),
        ([Tensor("a", ((1 << 64) - 1,) * 4)], "the file is cut off: its tensors need"),
    ],
)
def test_a_damaged_tensor_table_is_named(tmp_path: Path, tensors: list[Tensor], expected: str) -> None:
    assert expected in error_of(write_gguf(tmp_path / "m.gguf", tensors=tensors))


def test_a_key_that_stands_twice_is_named(tmp_path: Path) -> None:
    raw = bytearray(gguf_bytes(model_metadata() | {"twin.a": 1, "twin.b": 2}))
    at = raw.index(b"twin.b")
    raw[at : at + 6] = b"twin.a"
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    assert "the metadata has `twin.a` twice" in error_of(path)


def test_a_cut_file_says_how_much_is_missing(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    assert f"its tensors need {whole} bytes, it has {whole - 1}" in error_of(path)


# --- files that were damaged anywhere


@given(length=st.integers(0, len(SOUND) - 1))
def test_a_file_cut_anywhere_is_an_error(folder: Path, length: int) -> None:
    with pytest.raises(ModelError):
        read_bytes(folder, SOUND[:length])


@settings(max_examples=500, deadline=5_000)
@given(data=st.data())
def test_a_file_damaged_anywhere_is_an_error_or_another_model(folder: Path, data: st.DataObject) -> None:
    raw = bytearray(SOUND)
    at = data.draw(st.integers(0, len(raw) - 1))
    small = st.binary(min_size=1, max_size=8)
    patch = data.draw(small | st.sampled_from(EXTREMES).map(lambda number: struct.pack("<Q", number)))
    raw[at : at + len(patch)] = patch
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw))) :]
    try:
        model = read_bytes(folder, bytes(raw))
    except ModelError:
        return
    assert (model.fingerprint == read_bytes(folder, SOUND).fingerprint) == (raw == SOUND)


@settings(deadline=5_000)
@given(tail=st.binary(max_size=300))
def test_any_bytes_after_the_magic_are_an_error(folder: Path, tail: bytes) -> None:
    with pytest.raises(ModelError):
        read_bytes(folder, b"GGUF" + struct.pack("<I", 3) + tail)


@pytest.mark.parametrize("kind", [files.STRING, files.U64])
def test_an_absurd_count_in_a_huge_file_costs_little(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, 1)
        + files.string("x")
        + struct.pack("<IIQ", files.ARRAY, kind, 1 << 31)
    )
    os.truncate(path, 64 << 30)  # a hole: every length in it is a plausible 0
    began_s = time.process_time()
    error_of(path)
    assert time.process_time() - began_s < 1


# --- what it costs, and what the fingerprint notices


def test_a_large_vocabulary_is_stepped_over_cheaply(tmp_path: Path) -> None:
    tokens = [f"token{i:010}" for i in range(248_000)]
    metadata = model_metadata() | {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * len(tokens),
    }
    path = write_gguf(tmp_path / "m.gguf", metadata)
    read_model(write_gguf(tmp_path / "small.gguf"))  # imports are no part of it
    began_s = time.process_time()
    read_model(path)
    assert time.process_time() - began_s < 1
    tracemalloc.start()
    try:
        read_model(path)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


def test_the_fingerprint_notices_the_first_and_the_last_weight_but_not_the_path(tmp_path: Path) -> None:
    weights = Tensor("a", (1 << 20,), size_bytes=4 << 20)
    path = write_gguf(tmp_path / "m.gguf", tensors=[weights])
    original = path.read_bytes()
    begin = len(original) - weights.size_bytes
    seen = {read_model(path).fingerprint}
    for at in (begin, len(original) - 1):
        changed = bytearray(original)
        changed[at] ^= 1
        path.write_bytes(changed)
        seen.add(read_model(path).fingerprint)
    assert len(seen) == 3
    path.write_bytes(original)
    assert read_model(path.rename(tmp_path / "other.gguf")).fingerprint in seen
