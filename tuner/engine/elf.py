"""As much of the ELF format as tells what a program or library holds: its sections and what it links to."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_IDENTITY = b"\x7fELF\x02\x01"  # 64 bits, little-endian: what CUDA runs on
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC = struct.Struct("<QQ")
_NEEDED = 1
_NO_BITS = 8
#: Sane bounds: a damaged file must not make us read for ever.
_MAX_TABLE_BYTES = 8 * 2**20
_CHUNK_BYTES = 4 * 2**20


class NotElfError(Exception):
    """The file is no 64-bit little-endian ELF, or a damaged one."""


@dataclass(frozen=True, slots=True)
class Section:
    """Where a section lies in its file."""

    offset: int
    size: int


class ElfFile:
    """An open program or library; close it, or use it as a context.

    Args:
        path: The file.

    Raises:
        NotElfError: It is none.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._size = os.fstat(self._fd).st_size
            self.sections = self._read_sections()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the libraries that it links to, such as `libcudart.so.12`."""
        dynamic, strings = self.sections.get(".dynamic"), self.sections.get(".dynstr")
        if dynamic is None or strings is None:
            return ()
        names = self._table(strings.offset, strings.size)
        entries = self._table(dynamic.offset, dynamic.size - dynamic.size % _DYNAMIC.size)
        return tuple(_text(names, value) for tag, value in _DYNAMIC.iter_unpack(entries) if tag == _NEEDED)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes at an offset of the file; fewer at its end."""
        return os.pread(self._fd, size, offset)

    def chunks(self, section: Section, overlap: int) -> Iterator[bytes]:
        """A section piece by piece; each begins with the last `overlap` bytes of the one before."""
        end = section.offset + section.size
        at, tail = section.offset, b""
        while at < end:
            piece = self.read(at, min(_CHUNK_BYTES, end - at))
            if not piece:
                return
            at += len(piece)
            yield tail + piece
            tail = piece[-overlap:]

    def _read_sections(self) -> Mapping[str, Section]:
        head = self.read(0, _HEADER.size)
        if len(head) < _HEADER.size or not head.startswith(_IDENTITY):
            raise NotElfError
        _, _, _, _, _, _, table_at, _, _, _, _, entry_size, count, names_index = _HEADER.unpack(head)
        if entry_size != _SECTION.size or not 0 < names_index < count:
            return {}  # stripped of its section table: sound, and it tells nothing
        rows = list(_SECTION.iter_unpack(self._table(table_at, count * _SECTION.size)))
        _, _, _, _, names_at, names_size, _, _, _, _ = rows[names_index]
        names = self._table(names_at, names_size)
        return {
            _text(names, name): Section(offset, min(size, max(self._size - offset, 0)))
            for name, kind, _, _, offset, size, _, _, _, _ in rows
            if kind != _NO_BITS
        }

    def _table(self, offset: int, size: int) -> bytes:
        if not 0 <= size <= _MAX_TABLE_BYTES or offset < 0 or offset + size > self._size:
            raise NotElfError
        return self.read(offset, size)


def _text(table: bytes, at: int) -> str:
    """The zero-ended text at a place of a string table."""
    end = table.find(b"\0", at)
    return table[at : end if end >= 0 else len(table)].decode(errors="replace")
