"""Writes small ELF files as far as a reader of sections goes: sound ones, and fat binaries of nvcc's layout."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PTX, BINARY = 1, 2
_VARIANT_FLAGS = {"": 0, "a": 0x100000, "f": 0x200000}
_NEEDED = 1
_PROGRAM_BITS = 1

#: The name of the kernel for K of type q8_0 and V of type f16, as nvcc 13 writes it.
KERNEL = (
    "_Z18flash_attn_ext_vecILi128ELi2EL9ggml_type{k}ELS0_{v}ELb1EEvPKcS2_S2_S2_S2_PKiPfP6float2ffffjfi5uint3l"
)


def kernels(*pairs: tuple[int, int]) -> bytes:
    """Names of FlashAttention kernels for those types of K and V, by ggml's numbers."""
    return b"".join(KERNEL.format(k=k, v=v).encode() + b"\0" for k, v in pairs)


def fat_container(*entries: tuple[int, str], padding: int = 0) -> bytes:
    """A container of code for `(BINARY, "120a")` and the like; the code is made up."""
    code = b"".join(
        _entry(kind, architecture, size=64 + 8 * n) for n, (kind, architecture) in enumerate(entries)
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(code)) + code + bytes(padding)


def _entry(kind: int, architecture: str, *, size: int) -> bytes:
    digits = architecture.rstrip("af")
    flags = 0x11 | _VARIANT_FLAGS[architecture.removeprefix(digits)]
    header = struct.pack("<HHIQIIHHIIIQ", kind, 0x101, 64, size, 0, 0, 8, 1, int(digits), 0, 0, flags)
    return header.ljust(64, b"\0") + bytes(size)


def elf_bytes(sections: Mapping[str, bytes], needed: Sequence[str] = ()) -> bytes:
    """A file with these sections, which links to these libraries."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    places = [strings.index(name.encode() + b"\0") for name in needed]
    dynamic = b"".join(struct.pack("<QQ", _NEEDED, place) for place in places) + bytes(16)
    contents = {"": b"", **sections, ".dynstr": strings, ".dynamic": dynamic}
    names = b"".join(name.encode() + b"\0" for name in [*contents, ".shstrtab"])
    contents[".shstrtab"] = names
    body, rows = b"", []
    for name, content in contents.items():
        offset = 64 + len(body)
        place = names.index(name.encode() + b"\0") if name else 0
        kind = _PROGRAM_BITS if name else 0
        rows.append(struct.pack("<IIQQQQIIQQ", place, kind, 0, 0, offset, len(content), 0, 0, 8, 0))
        body += content.ljust(-(-len(content) // 8) * 8, b"\0")
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(3, 62, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, len(rows), len(rows) - 1),
    )
    return header + body + b"".join(rows)


def write_elf(path: Path, sections: Mapping[str, bytes] | None = None, needed: Sequence[str] = ()) -> Path:
    """Write `elf_bytes` there, as a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(elf_bytes(sections or {}, needed))
    path.chmod(0o755)
    return path
