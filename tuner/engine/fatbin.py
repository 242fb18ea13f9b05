"""What CUDA code was compiled for: the headers of the fat binaries that nvcc puts into a program or library.

A section `.nv_fatbin` is a row of containers, one a source file, each a header and its entries: machine code or
PTX for one architecture. Only headers are read, so a library of half a GB takes milliseconds, and the code may
be compressed. NVIDIA does not document the layout; as nvcc 13 writes it, it is:

    container  u32 magic, u16 version, u16 size of this header, u64 size of all entries
    entry      u16 kind, u16, u32 size of this header, u64 size of the code, ..., at 28 u32 architecture,
               ..., at 40 u64 flags
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tuner.core.checkup.facts import Architecture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tuner.engine.elf import ElfFile, Section

SECTION = ".nv_fatbin"

_MAGIC = b"\x50\xed\x55\xba"
_CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQ12xI8xQ")
_PTX, _BINARY = 1, 2
_VARIANT_FLAGS = {0x100000: "a", 0x200000: "f"}
_ALIGNMENT = 8
_SEARCH_BYTES = 64 * 1024
#: Containers follow one another but for some padding; behind more than this there is none.
_LARGEST_GAP_BYTES = 2**20


class CudaCode(NamedTuple):
    """What there is code for."""

    binary: frozenset[Architecture]
    ptx: frozenset[Architecture]


def read_cuda_code(file: ElfFile, section: Section, in_time: Callable[[], bool]) -> CudaCode | None:
    """The architectures of all containers.

    Args:
        file: A program or library.
        section: Its section of that name.
        in_time: Whether there is time to go on.

    Returns:
        None if there is not, or if nothing in the section is a container.
    """
    found: dict[int, set[Architecture]] = {_PTX: set(), _BINARY: set()}
    at, end = section.offset, section.offset + section.size
    while (container := _next_container(file, at, end)) is not None:
        start, size = container
        at = min(start + size, end)
        for kind, architecture in _entries(file, start, at):
            found.setdefault(kind, set()).add(architecture)
        if not in_time():
            return None
    if not found[_PTX] and not found[_BINARY]:
        return None
    return CudaCode(binary=frozenset(found[_BINARY]), ptx=frozenset(found[_PTX]))


def _entries(file: ElfFile, at: int, end: int) -> Iterator[tuple[int, Architecture]]:
    """Kind and architecture of each entry of one container."""
    while at + _ENTRY.size <= end:
        kind, _, header_size, code_size, number, flags = _ENTRY.unpack(file.read(at, _ENTRY.size))
        if header_size < _ENTRY.size:
            return  # no entry: damaged, or of a kind to come
        variant = next((name for flag, name in _VARIANT_FLAGS.items() if flags & flag), "")
        yield kind, Architecture(number // 10, number % 10, variant)
        at += header_size + code_size


def _next_container(file: ElfFile, at: int, end: int) -> tuple[int, int] | None:
    """Where the entries of the next container begin, and how many bytes they take; at or behind `at`."""
    end = min(end, at + _LARGEST_GAP_BYTES)
    while at + _CONTAINER.size <= end:
        block = file.read(at, min(_SEARCH_BYTES, end - at))
        last = len(block) - _CONTAINER.size
        if last < 0:  # the file is shorter than it says
            return None
        place = block.find(_MAGIC)
        while 0 <= place <= last:
            _, _, header_size, size = _CONTAINER.unpack_from(block, place)
            if place % _ALIGNMENT == 0 and header_size >= _CONTAINER.size:
                return at + place + header_size, size
            place = block.find(_MAGIC, place + 1)
        at += (last // _ALIGNMENT + 1) * _ALIGNMENT
    return None
