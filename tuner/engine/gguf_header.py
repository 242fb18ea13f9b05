"""The header of one GGUF file: metadata and tensor table, read without trusting a single number in it.

A vocabulary of a quarter of a million tokens is stepped over, not read: what tuning needs of a file of 27 GB
costs a fraction of a second and about a megabyte. Layout: ggml/src/gguf.cpp of llama.cpp.
"""

from __future__ import annotations

import importlib
import math
import stat
import struct
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from tuner.core.model import TensorInfo
from tuner.engine.gguf_cursor import CHUNK_BYTES, Cursor
from tuner.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: What a metadata entry can hold; longer texts, longer arrays and arrays of texts are left out.
Value = bool | int | float | str | tuple[bool | int | float, ...]

# As in gguf_cursor: far above what real files hold, low enough for a damaged count to do no harm.
_MAX_ENTRIES = 1 << 13
_MAX_TENSORS = 1 << 17
_MAX_KEY_BYTES = (1 << 16) - 1
_MAX_TENSOR_NAME_BYTES = 63
_MAX_DIMENSIONS = 4
_MAX_KEPT_STRING_BYTES = 1 << 10
_MAX_KEPT_ELEMENTS = 1 << 12

_SAMPLE_BYTES = 1 << 20
_TOKENS = "tokenizer.ggml.tokens"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_STRING, _ARRAY, _FLOAT32 = 8, 9, 6
_SCALAR_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_KNOWN_STARTS = (
    (b"version https://git-lfs", "a Git LFS pointer: run `git lfs pull` in its folder"),
    (b"<", "a web page: download the file itself"),
    (b"PK\x03\x04", "a zip archive or a PyTorch checkpoint: convert it to GGUF"),
)


@dataclass(frozen=True, slots=True)
class Header:
    """What one GGUF file says about itself."""

    values: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]
    size_bytes: int
    """The file's."""
    digest: bytes
    """Hash over the size, the header, and the first and last MiB of the weights."""
    vocabulary: str
    """Hash over the list of tokens; empty where there is none."""


def read_header(path: Path) -> Header:
    """Read one file's metadata and tensor table, and check that the tensors' bytes are there.

    Raises:
        ModelError: The file is missing, unreadable, no GGUF, cut or damaged, or of another version or byte
            order.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ModelError(f"{path}: this is a directory; give the .gguf file in it")
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path}: this is no regular file; give a .gguf file")
        with path.open("rb") as file:
            return _read(Cursor(file, path, status.st_size))
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file; check the path of the model") from None
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error


def _read(cursor: Cursor) -> Header:
    n_tensors, n_entries = _read_start(cursor)
    values: dict[str, Value] = {}
    seen: set[str] = set()
    tokens = (0, 0)
    for index in range(n_entries):
        cursor.reading = f"metadata entry {index + 1} of {n_entries}"
        key = cursor.string(_MAX_KEY_BYTES)
        if key in seen:
            cursor.fail(f"the metadata has `{key}` twice")
        seen.add(key)
        cursor.reading = f"the value of `{key}`"
        begin = cursor.at
        value = _read_value(cursor)
        if key == _TOKENS:
            tokens = (begin, cursor.at)
        if value is not None:
            values[key] = value
    rows = [
        _read_row(cursor, f"row {index + 1} of {n_tensors} of the tensor table") for index in range(n_tensors)
    ]
    alignment = values.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        cursor.fail(f"`general.alignment` is {alignment!r}, no power of two")
    data_at = -(-cursor.at // alignment) * alignment if rows else cursor.at
    tensors = _measure(cursor, rows, data_at)
    vocabulary = blake2b(digest_size=16)
    _take_in(vocabulary, cursor, *tokens)
    return Header(
        values,
        tensors,
        cursor.size_bytes,
        _digest(cursor, min(data_at, cursor.size_bytes)),
        vocabulary.hexdigest() if any(tokens) else "",
    )


def _read_start(cursor: Cursor) -> tuple[int, int]:
    """Check magic, byte order and version; return how many tensors and metadata entries follow."""
    start = cursor.file.read(32)
    if not start:
        cursor.fail("the file is empty", "download it again")
    if start[:4] != b"GGUF":
        known = next((f", {what}" for begin, what in _KNOWN_STARTS if start.startswith(begin)), "")
        cursor.fail(f"no GGUF: it starts with {start[:16]!r}{known}", "give a model file in the GGUF format")
    cursor.skip(4)
    (version,) = cursor.unpack("I")
    if version and not version & 0xFFFF:
        cursor.fail(
            "a big-endian GGUF, which this machine cannot run", "get the little-endian file of the model"
        )
    if version not in _VERSIONS:
        cursor.fail(
            f"GGUF version {version}, and only versions 2 and 3 are understood",
            "convert the model with a current llama.cpp",
        )
    n_tensors, n_entries = cursor.unpack("QQ")
    if n_tensors > _MAX_TENSORS or n_entries > _MAX_ENTRIES:
        cursor.fail(f"the header claims {n_tensors} tensors and {n_entries} metadata entries")
    return n_tensors, n_entries


def _read_value(cursor: Cursor) -> Value | None:
    """The value of one metadata entry; None for what is stepped over."""
    (kind,) = cursor.unpack("I")
    if kind == _ARRAY:
        return _read_array(cursor)
    if kind == _STRING:
        (length,) = cursor.unpack("Q")
        if length > _MAX_KEPT_STRING_BYTES:
            cursor.skip(length)
            return None
        return cursor.take(length).decode("utf-8", "replace")
    (value,) = _unpack_scalars(cursor, kind, 1)
    return _shortest_float32(value) if kind == _FLOAT32 else value


def _read_array(cursor: Cursor) -> Value | None:
    kind, count = cursor.unpack("IQ")
    if kind == _STRING:
        cursor.skip_strings(count)
        return None
    if count > _MAX_KEPT_ELEMENTS:
        cursor.skip(count * struct.calcsize("<" + _scalar_format(cursor, kind)))
        return None
    return _unpack_scalars(cursor, kind, count)


def _unpack_scalars(cursor: Cursor, kind: int, count: int) -> tuple[bool | int | float, ...]:
    fields = f"<{count}{_scalar_format(cursor, kind)}"
    return struct.unpack(fields, cursor.take(struct.calcsize(fields)))


def _scalar_format(cursor: Cursor, kind: int) -> str:
    if kind not in _SCALAR_FORMATS:
        cursor.fail(f"{cursor.reading} has the unknown type {kind}")
    return _SCALAR_FORMATS[kind]


def _shortest_float32(value: float) -> float:
    """The number that was meant: 0.6 is stored in 32 bits and comes back as 0.6000000238418579."""
    if not math.isfinite(value):
        return value
    packed = struct.pack("<f", value)
    candidates = (float(f"{value:.{digits}g}") for digits in (6, 7, 8))
    # Rounding the largest 32-bit number up leaves the range that `pack` accepts.
    return next((c for c in candidates if abs(c) < 3.4e38 and struct.pack("<f", c) == packed), value)


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the tensor table as it stands in the file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    size_bytes: int | None
    """None for an element type that is not known."""


def _read_row(cursor: Cursor, reading: str) -> _Row:
    cursor.reading = reading
    name = cursor.string(_MAX_TENSOR_NAME_BYTES)
    (n_dimensions,) = cursor.unpack("I")
    if n_dimensions > _MAX_DIMENSIONS:
        cursor.fail(f"tensor `{name}` claims {n_dimensions} dimensions, {_MAX_DIMENSIONS} are allowed")
    shape = cursor.unpack(f"{n_dimensions}Q")
    kind, offset = cursor.unpack("IQ")
    if kind not in _element_types():
        return _Row(name, shape, f"type {kind}", offset, None)
    type_name, block_elements, block_bytes = _element_types()[kind]
    row_elements = shape[0] if shape else 1
    if row_elements % block_elements:
        cursor.fail(
            f"tensor `{name}` has rows of {row_elements} elements, "
            f"no multiple of {type_name}'s {block_elements}"
        )
    return _Row(name, shape, type_name, offset, math.prod(shape) // block_elements * block_bytes)


@cache
def _element_types() -> Mapping[int, tuple[str, int, int]]:
    """Name, elements a block and bytes a block of every element type that the gguf package knows.

    The package is imported here because it takes NumPy along: 0.1 s that only a command with a model pays.
    """
    sizes = importlib.import_module("gguf.constants").GGML_QUANT_SIZES
    return {int(kind): (str(kind.name), block, size) for kind, (block, size) in sizes.items()}


def _measure(cursor: Cursor, rows: list[_Row], data_at: int) -> tuple[TensorInfo, ...]:
    """Give every tensor its size, and check that no two overlap and that the file holds them all.

    A tensor of an unknown type reaches to where the next one begins, the last one to the file's end.
    """
    if len({row.name for row in rows}) < len(rows):
        cursor.fail("the tensor table has a name twice")
    ordered = sorted(rows, key=lambda row: (row.offset, row.size_bytes or 0))
    sizes: dict[str, int] = {}
    for row, after in pairwise(ordered):
        room = after.offset - row.offset
        sizes[row.name] = room if row.size_bytes is None else row.size_bytes
        if sizes[row.name] > room:
            cursor.fail(
                f"tensor `{row.name}` needs {sizes[row.name]} bytes, but `{after.name}` begins after {room}"
            )
    if ordered:
        last = ordered[-1]
        rest = max(cursor.size_bytes - data_at - last.offset, 0)
        sizes[last.name] = rest if last.size_bytes is None else last.size_bytes
        needed = data_at + last.offset + sizes[last.name]
        if needed > cursor.size_bytes:
            cursor.fail(
                f"the file is cut off: its tensors need {needed} bytes, it has {cursor.size_bytes}",
                "finish the download or download it again",
            )
    return tuple(TensorInfo(row.name, row.shape, row.type_name, sizes[row.name]) for row in rows)


def _digest(cursor: Cursor, data_at: int) -> bytes:
    """Hash the parts of a file in which two different models differ, but not its tens of gigabytes."""
    size_bytes = cursor.size_bytes
    parts = (
        (0, data_at),
        (data_at, min(data_at + _SAMPLE_BYTES, size_bytes)),
        (max(size_bytes - _SAMPLE_BYTES, data_at), size_bytes),
    )
    digest = blake2b(struct.pack("<QQ", size_bytes, data_at), digest_size=16)
    for begin, end in parts:
        _take_in(digest, cursor, begin, end)
    return digest.digest()


def _take_in(digest: blake2b, cursor: Cursor, begin: int, end: int) -> None:
    """Hash a part of the file as well."""
    cursor.file.seek(begin)
    for at in range(begin, end, CHUNK_BYTES):
        digest.update(cursor.file.read(min(CHUNK_BYTES, end - at)))
