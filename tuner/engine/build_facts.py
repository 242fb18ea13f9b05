"""What a llama-server was compiled with, read from the binary and its own libraries; nothing of it runs."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuner.core.checkup.facts import BuildFacts, EngineFacts
from tuner.engine.elf import ElfFile, NotElfError
from tuner.engine.fatbin import SECTION as CUDA_SECTION
from tuner.engine.fatbin import read_cuda_code
from tuner.engine.linked import missing_libraries
from tuner.engine.probe import own_libraries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tuner.core.checkup.facts import Architecture
    from tuner.engine.probe import Engine

READ_WITHIN_S = 2.0

_BACK_END_FILE = re.compile(r"libggml-(?!base)(?P<name>[a-z]+)(?:-\w+)?\.so")
_OWN_LIBRARY = re.compile(r"lib(ggml|llama)[\w.-]*\.so")
#: What else tells a back end that is linked into the program itself.
_HIP_SECTION = ".hip_fatbin"
_LINKED = {"libvulkan.so.1": "vulkan", "libOpenCL.so.1": "opencl"}

_CUDA_RUNTIME = re.compile(r"libcudart\.so\.(\d+)")

#: Texts of llama.cpp that are there, or not, by what was compiled.
_STRINGS = ".rodata"
_RPC_TEXT = b"Remote RPC server crashed"
_NO_NCCL_TEXT = b"NCCL not compiled in"
_KERNEL = re.compile(rb"18flash_attn_ext_vecILi\d+ELi\d+EL9ggml_type(\d+)ELS\d*_(\d+)E")
_LONGEST_TEXT_BYTES = 256
_KV_TYPES = {
    0: "f32",
    1: "f16",
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    20: "iq4_nl",
    30: "bf16",
}


def engine_facts(engine: Engine) -> EngineFacts:
    """What its help says, as far as a checkup judges it."""
    split_mode, spec_type = engine.help.option("split-mode"), engine.help.option("spec-type")
    return EngineFacts(
        path=str(engine.path),
        version=engine.version,
        digest=engine.digest,
        split_modes=frozenset() if split_mode is None else split_mode.allowed,
        spec_types=frozenset() if spec_type is None else spec_type.allowed,
        has_load_mode=engine.help.option("load-mode") is not None,
        takes_rpc=engine.help.option("rpc") is not None,
    )


def read_build(
    program: Path, environment: Mapping[str, str], *, within_s: float = READ_WITHIN_S
) -> BuildFacts:
    """Read what a build holds; a fact that cannot be read in that time stays unknown.

    Args:
        program: The llama-server.
        environment: What its servers run with: libraries are looked for in it.
        within_s: Seconds for reading the files; what the system's `ldd` takes comes on top.
    """
    libraries = own_libraries(program, environment)
    signs = _Signs(end_s=time.monotonic() + within_s)
    are_read = [signs.read(file) for file in (program, *libraries)]
    back_ends = [file for file in libraries if _back_end(file) is not None]
    if not back_ends and (not are_read[0] or signs.links_llama):
        return BuildFacts()  # a script, or a program whose back ends are somewhere else
    missing = {file.name: names for file in back_ends if (names := missing_libraries(file, environment))}
    return signs.facts(missing)


def _back_end(file: Path) -> str | None:
    """The back end that a library is, by its name; several files may be one."""
    name = _BACK_END_FILE.match(file.name)
    return None if name is None else name["name"]


@dataclass(slots=True)
class _Signs:
    """What the files read so far show."""

    end_s: float
    back_ends: set[str] = field(default_factory=set)
    binary: set[Architecture] = field(default_factory=set)
    ptx: set[Architecture] = field(default_factory=set)
    is_code_known: bool = True
    links_llama: bool = False
    links_nccl: bool = False
    lacks_nccl: bool = False
    kv_pairs: set[tuple[str, str]] = field(default_factory=set)
    cuda_major: int | None = None
    are_texts_known: bool = True

    def read(self, file: Path) -> bool:
        """Add what a file shows; whether it is a program or library at all."""
        try:
            with ElfFile(file) as elf:
                self._read_kind(file, elf)
                self._read_code(elf)
                self._read_texts(elf)
        except (NotElfError, OSError):
            return False
        return True

    def facts(self, missing: Mapping[str, tuple[str, ...]]) -> BuildFacts:
        has_cuda = "cuda" in self.back_ends
        has_code = has_cuda and self.is_code_known and bool(self.binary or self.ptx)
        has_pairs = has_cuda and self.are_texts_known and bool(self.kv_pairs)
        return BuildFacts(
            back_ends=frozenset(self.back_ends),
            binary=frozenset(self.binary) if has_code else None,
            ptx=frozenset(self.ptx) if has_code else None,
            nccl=self._nccl(),
            fast_kv_pairs=frozenset(self.kv_pairs) if has_pairs else None,
            cuda_major=self.cuda_major,
            missing=missing,
        )

    def _nccl(self) -> bool | None:
        """Newer builds without it carry the text that says so; older ones tell only by what they link."""
        if self.links_nccl:
            return True
        return False if self.lacks_nccl else None

    def _read_kind(self, file: Path, elf: ElfFile) -> None:
        if (name := _back_end(file)) is not None:
            self.back_ends.add(name)
        if CUDA_SECTION in elf.sections:
            self.back_ends.add("cuda")
        if _HIP_SECTION in elf.sections:
            self.back_ends.add("hip")
        for library in elf.needed:
            if library in _LINKED:
                self.back_ends.add(_LINKED[library])
            self.links_llama = self.links_llama or _OWN_LIBRARY.match(library) is not None
            self.links_nccl = self.links_nccl or library.startswith("libnccl.so")
            if (runtime := _CUDA_RUNTIME.match(library)) is not None:
                self.cuda_major = int(runtime[1])

    def _read_code(self, elf: ElfFile) -> None:
        section = elf.sections.get(CUDA_SECTION)
        if section is None:
            return
        code = read_cuda_code(elf, section, self._in_time)
        # A static cuBLAS lies in the same section, with code for every card: then nothing is known of ours.
        if code is None or not any(library.startswith("libcublas.so") for library in elf.needed):
            self.is_code_known = False
            return
        self.binary |= code.binary
        self.ptx |= code.ptx

    def _read_texts(self, elf: ElfFile) -> None:
        section = elf.sections.get(_STRINGS)
        if section is None:
            return
        for piece in elf.chunks(section, _LONGEST_TEXT_BYTES):
            if not self._in_time():
                self.are_texts_known = False
                return
            if _RPC_TEXT in piece:
                self.back_ends.add("rpc")
            self.lacks_nccl = self.lacks_nccl or _NO_NCCL_TEXT in piece
            for kernel in _KERNEL.finditer(piece):
                k, v = (_KV_TYPES.get(int(number), f"type {number.decode()}") for number in kernel.groups())
                self.kv_pairs.add((k, v))

    def _in_time(self) -> bool:
        return time.monotonic() < self.end_s
