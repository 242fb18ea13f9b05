"""A place in a GGUF file that only moves forward, and never past what the file can hold."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from tuner.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes read at a time; nothing longer is ever taken in one piece.
CHUNK_BYTES = 1 << 18
#: What to do about numbers that make no sense.
DAMAGED = "the file is damaged: download it again"

# No real file comes near these bounds (vocabularies stay below 300,000 tokens and 20 MB). They are there so
# that a damaged count costs neither minutes nor gigabytes.
_MAX_HEADER_BYTES = 256 << 20
_MAX_STRINGS = 1 << 22


class Cursor:
    """A place in a file that is read forward in chunks; every step is checked against the file's end."""

    __slots__ = ("_chunk", "_chunk_at", "_end", "at", "file", "path", "reading", "size_bytes")

    def __init__(self, file: BinaryIO, path: Path, size_bytes: int) -> None:
        self.file = file
        self.path = path
        self.size_bytes = size_bytes
        self.at = 0
        self.reading = "the first bytes"
        self._end = min(size_bytes, _MAX_HEADER_BYTES)
        self._chunk = b""
        self._chunk_at = 0

    def fail(self, why: str, remedy: str = DAMAGED) -> NoReturn:
        """Stop with an error that names the file."""
        raise ModelError(f"{self.path}: {why}; {remedy}")

    def take(self, count: int) -> bytes:
        """The next `count` bytes; never more than a chunk."""
        self._require(count)
        start = self.at - self._chunk_at
        if start + count > len(self._chunk):
            self._load()
            start = 0
        self.at += count
        return self._chunk[start : start + count]

    def unpack(self, fields: str) -> tuple[int, ...]:
        """The next little-endian integers."""
        return struct.unpack("<" + fields, self.take(struct.calcsize("<" + fields)))

    def string(self, max_bytes: int) -> str:
        """The next string, which must not be longer than that."""
        (length,) = self.unpack("Q")
        if length > max_bytes:
            self.fail(f"{self.reading} claims a name of {length} bytes, {max_bytes} are allowed")
        return self.take(length).decode("utf-8", "replace")

    def skip(self, count: int) -> None:
        """Step over bytes without reading them."""
        self._require(count)
        self.at += count

    def skip_strings(self, count: int) -> None:
        """Step over that many strings, looking at nothing but their lengths."""
        if count > _MAX_STRINGS:
            self.fail(f"{self.reading} claims {count} strings, {_MAX_STRINGS} are allowed")
        length_at = struct.Struct("<Q").unpack_from
        while count:
            self._require(8)
            self._load()
            chunk, last, offset = self._chunk, len(self._chunk) - 8, 0
            while count and offset <= last:
                offset += 8 + length_at(chunk, offset)[0]
                count -= 1
            self.skip(offset)

    def _require(self, count: int) -> None:
        if self.at + count <= self._end:
            return
        if self._end < self.size_bytes:
            self.fail(f"the header claims more than {_MAX_HEADER_BYTES >> 20} MiB, in {self.reading}")
        self.fail(
            f"the file ends in {self.reading}: {self.at + count} bytes are needed, it has {self.size_bytes}",
            "it is cut off or damaged: download it again",
        )

    def _load(self) -> None:
        self.file.seek(self.at)
        self._chunk = self.file.read(CHUNK_BYTES)
        self._chunk_at = self.at
        if len(self._chunk) < min(CHUNK_BYTES, self.size_bytes - self.at):
            self.fail("the file became shorter while it was read", "let its writer finish, then try again")
