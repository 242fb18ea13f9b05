"""Writes small GGUF files, sound and unsound ones, byte by byte and without the code under test."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10

#: A value by the type that it is written as: BOOL, U32, F32, STRING or an array of I32.
Value = bool | int | float | str | list[int]
#: Bytes are written as they are, as an entry's type and value.
Metadata = dict[str, Value | bytes | list[str]]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor to write: its bytes are made up."""

    name: str
    shape: tuple[int, ...] = (64,)
    kind: int = 0
    """ggml's number of the element type; 0 is F32."""
    size_bytes: int = 256


def string(text: str) -> bytes:
    """A length and the text."""
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def model_metadata(architecture: str = "llama", /, **numbers: Value) -> Metadata:
    """What a small dense model says; `numbers` replace and add keys of its architecture, `__` for a dot."""
    own: dict[str, Value] = {
        "block_count": 2,
        "context_length": 4096,
        "embedding_length": 64,
        "attention__head_count": 4,
        "attention__head_count_kv": 2,
    }
    own.update(numbers)
    return {
        "general.architecture": architecture,
        "general.name": "Small Model",
        **{f"{architecture}.{key.replace('__', '.')}": value for key, value in own.items()},
    }


def _header(metadata: Mapping[str, object], tensors: Sequence[Tensor], *, version: int = 3) -> bytes:
    """Magic, counts, metadata and tensor table, padded to where the weights begin."""
    out = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    out += [_entry(key, value) for key, value in metadata.items()]
    offset = 0
    for tensor in tensors:
        out.append(string(tensor.name))
        out.append(
            struct.pack(f"<I{len(tensor.shape)}QIQ", len(tensor.shape), *tensor.shape, tensor.kind, offset)
        )
        offset += _padded(tensor.size_bytes)
    raw = b"".join(out)
    return raw.ljust(_padded(len(raw)), b"\0") if tensors else raw


def gguf_bytes(
    metadata: Mapping[str, object] | None = None, tensors: Sequence[Tensor] | None = None, *, version: int = 3
) -> bytes:
    """A whole file; a small dense model unless told otherwise."""
    metadata = model_metadata() if metadata is None else metadata
    tensors = (Tensor("token_embd.weight"), Tensor("output.weight")) if tensors is None else tensors
    weights = b"".join(_weights(index, tensor) for index, tensor in enumerate(tensors))
    return _header(metadata, tensors, version=version) + weights


def write_gguf(
    path: Path,
    metadata: Mapping[str, object] | None = None,
    tensors: Sequence[Tensor] | None = None,
    *,
    version: int = 3,
) -> Path:
    """Write `gguf_bytes` there."""
    path.write_bytes(gguf_bytes(metadata, tensors, version=version))
    return path


def write_sparse_gguf(path: Path, metadata: Mapping[str, object], tensors: Sequence[Tensor]) -> Path:
    """Write a file of the right size and header whose weights are a hole: as large as one likes."""
    header = _header(metadata, tensors)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(_padded(tensor.size_bytes) for tensor in tensors))
    return path


def write_shards(folder: Path, stem: str, count: int, metadata: Metadata | None = None) -> list[Path]:
    """Write a model in so many shards of one tensor each; only the first holds the model's metadata."""
    paths = []
    for number in range(count):
        split: Metadata = {"split.no": number, "split.count": count, "split.tensors.count": count}
        whole = {**(model_metadata() if metadata is None else metadata), **split}
        path = folder / f"{stem}-{number + 1:05}-of-{count:05}.gguf"
        paths.append(write_gguf(path, whole if number == 0 else split, [Tensor(f"blk.{number}.weight")]))
    return paths


def _entry(key: str, value: object) -> bytes:
    if isinstance(value, bytes):  # type and value are the caller's
        return string(key) + value
    kind, raw = _typed(value)
    return string(key) + struct.pack("<I", kind) + raw


def _typed(value: object) -> tuple[int, bytes]:
    match value:
        case bool():
            typed = BOOL, struct.pack("<?", value)
        case int():
            typed = U32, struct.pack("<I", value)
        case float():
            typed = F32, struct.pack("<f", value)
        case str():
            typed = STRING, string(value)
        case [str(), *_]:
            texts = b"".join(string(str(text)) for text in value)
            typed = ARRAY, struct.pack("<IQ", STRING, len(value)) + texts
        case [*numbers]:
            typed = ARRAY, struct.pack(f"<IQ{len(numbers)}i", I32, len(numbers), *numbers)
        case _:
            raise TypeError(value)
    return typed


def _weights(index: int, tensor: Tensor) -> bytes:
    raw = bytes((index + at) % 251 for at in range(tensor.size_bytes))
    return raw.ljust(_padded(tensor.size_bytes), b"\0")


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
