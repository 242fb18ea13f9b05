"""What is read from a build's files: fabricated ones, and the real engine's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.elf_files import BINARY, PTX, fat_container, kernels, write_elf
from tuner.core.checkup.facts import Architecture, BuildFacts
from tuner.engine import build_facts
from tuner.engine.build_facts import engine_facts, read_build
from tuner.engine.elf import ElfFile, NotElfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.engine.probe import Engine

CUBLAS = "libcublas.so.12"
USUAL_NEEDS = ("libcudart.so.12", CUBLAS, "libggml-base.so")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A llama-server that links to llama.cpp's own libraries, which lie beside it."""
    return write_elf(tmp_path / "bin" / "llama-server", needed=["libllama.so", "libggml.so"])


def library(program: Path, name: str, sections: dict[str, bytes], needed: tuple[str, ...] = ()) -> Path:
    return write_elf(program.with_name(name), sections, needed)


def cuda_build(
    program: Path, *containers: bytes, texts: bytes = b"", needed: tuple[str, ...] = USUAL_NEEDS
) -> BuildFacts:
    library(program, "libggml-cuda.so", {".rodata": texts, ".nv_fatbin": b"".join(containers)}, needed)
    return read_build(program, os.environ)


def shown(architectures: frozenset[Architecture] | None) -> str | None:
    return None if architectures is None else " ".join(map(str, sorted(architectures)))


# --- CUDA architectures


def test_machine_code_and_ptx_are_told_apart(program: Path) -> None:
    build = cuda_build(program, fat_container((PTX, "75"), (BINARY, "86"), (BINARY, "120a"), (PTX, "120f")))
    assert (shown(build.binary), shown(build.ptx)) == ("86 120a", "75 120f")
    assert build.back_ends == frozenset({"cuda"})


def test_every_container_is_read_whatever_lies_between(program: Path) -> None:
    build = cuda_build(
        program,
        fat_container((BINARY, "86"), padding=8),
        fat_container((BINARY, "89"), padding=70_000),
        fat_container((BINARY, "90a")),
    )
    assert shown(build.binary) == "86 89 90a"


def test_code_of_a_kind_to_come_is_passed_over(program: Path) -> None:
    build = cuda_build(program, fat_container((64, "75"), (BINARY, "86")))
    assert (shown(build.binary), shown(build.ptx)) == ("86", "")


@pytest.mark.parametrize(
    "section",
    [b"", bytes(4096), b"\x50\xed\x55\xba" + bytes(60), fat_container()],
    ids=["empty", "zeros", "no header", "no entries"],
)
def test_section_without_code_leaves_architectures_unknown(program: Path, section: bytes) -> None:
    build = cuda_build(program, section)
    assert (build.binary, build.ptx) == (None, None)
    assert build.has("cuda") is True


def test_container_that_is_cut_ends_the_reading(program: Path) -> None:
    whole = fat_container((BINARY, "86"), (BINARY, "89"))
    assert shown(cuda_build(program, whole[:-150]).binary) == "86"


def test_static_cublas_hides_what_ours_was_compiled_for(program: Path) -> None:
    build = cuda_build(program, fat_container((BINARY, "86")), needed=("libggml-base.so",))
    assert (build.binary, build.ptx, build.cuda_major) == (None, None, None)


def test_no_time_leaves_everything_unknown(program: Path) -> None:
    library(
        program,
        "libggml-cuda.so",
        {".rodata": kernels((1, 1)), ".nv_fatbin": fat_container((BINARY, "86"))},
        USUAL_NEEDS,
    )
    build = read_build(program, os.environ, within_s=0)
    assert (build.binary, build.fast_kv_pairs) == (None, None)


# --- NCCL, FlashAttention, CUDA's version


def test_linked_nccl_is_seen(program: Path) -> None:
    assert cuda_build(program, needed=(*USUAL_NEEDS, "libnccl.so.2")).nccl is True


def test_build_that_says_it_has_no_nccl_has_none(program: Path) -> None:
    texts = b"NCCL not compiled in; falling back to internal AllReduce.\0"
    assert cuda_build(program, texts=texts).nccl is False


def test_older_build_without_nccl_is_unknown(program: Path) -> None:
    assert cuda_build(program, texts=b"CUDA error\0").nccl is None


def test_pairs_of_kv_types_are_those_that_have_a_kernel(program: Path) -> None:
    build = cuda_build(program, texts=kernels((1, 1), (8, 8), (8, 2), (99, 1)))
    assert build.fast_kv_pairs == frozenset(
        {("f16", "f16"), ("q8_0", "q8_0"), ("q8_0", "q4_0"), ("type 99", "f16")}
    )


def test_kernel_name_across_two_pieces_is_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.engine.elf._CHUNK_BYTES", 50)
    assert cuda_build(program, texts=bytes(30) + kernels((30, 30))).fast_kv_pairs == frozenset(
        {("bf16", "bf16")}
    )


def test_version_of_the_cuda_that_is_linked_is_read(program: Path) -> None:
    assert cuda_build(program).cuda_major == 12


# --- which back ends there are


def test_back_ends_are_the_libraries_beside_the_program(program: Path) -> None:
    for name in ("libggml-base.so.0", "libggml-cpu-haswell.so", "libggml-rpc.so", "libggml-vulkan.so"):
        library(program, name, {})
    assert read_build(program, os.environ).back_ends == frozenset({"cpu", "rpc", "vulkan"})


def test_back_ends_of_a_program_in_one_piece_are_found(tmp_path: Path) -> None:
    sections = {
        ".rodata": b"Remote RPC server crashed or returned malformed response\0" + kernels((1, 1)),
        ".nv_fatbin": fat_container((BINARY, "86")),
    }
    program = write_elf(tmp_path / "llama-server", sections, [CUBLAS, "libvulkan.so.1"])
    build = read_build(program, os.environ)
    assert build.back_ends == frozenset({"cuda", "rpc", "vulkan"})
    assert shown(build.binary) == "86"


def test_program_without_back_ends_is_known_to_have_none(tmp_path: Path) -> None:
    assert read_build(write_elf(tmp_path / "llama-server"), os.environ).back_ends == frozenset()


def test_script_is_unknown_through_and_through(tmp_path: Path) -> None:
    script = tmp_path / "llama-server"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    assert read_build(script, os.environ) == BuildFacts()


def test_script_beside_its_libraries_is_read_by_them(program: Path) -> None:
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    assert shown(cuda_build(program, fat_container((BINARY, "86"))).binary) == "86"


def test_libraries_that_are_nowhere_leave_back_ends_unknown(program: Path) -> None:
    assert read_build(program, os.environ).back_ends is None


def test_library_that_a_back_end_lacks_is_named(program: Path, tmp_path: Path) -> None:
    ldd = tmp_path / "tools" / "ldd"
    ldd.parent.mkdir()
    ldd.write_text("#!/bin/sh\necho '\tlibcudart.so.12 => not found'\n", encoding="utf-8")
    ldd.chmod(0o755)
    library(program, "libggml-cuda.so", {})
    build = read_build(program, {"PATH": f"{ldd.parent}{os.pathsep}{os.environ['PATH']}"})
    assert build.missing == {"libggml-cuda.so": ("libcudart.so.12",)}


# --- files that are none


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:0],
        lambda whole: whole[:40],
        lambda whole: whole[:-64],
        lambda whole: b"\x7fELF\x01" + whole[5:],
        lambda whole: whole[:40] + b"\xff" * 8 + whole[48:],
    ],
    ids=["empty", "header cut", "table cut", "32 bits", "table far away"],
)
def test_damaged_file_is_no_elf(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = write_elf(tmp_path / "lib.so", {".rodata": b"text"})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NotElfError):
        ElfFile(path)


def test_file_without_a_section_table_has_no_sections(tmp_path: Path) -> None:
    path = write_elf(tmp_path / "lib.so", {".rodata": b"text"})
    whole = path.read_bytes()
    path.write_bytes(whole[:58] + bytes(6) + whole[64:])
    with ElfFile(path) as elf:
        assert (dict(elf.sections), elf.needed) == ({}, ())


def test_damaged_library_costs_its_facts_alone(program: Path) -> None:
    program.with_name("libggml-cuda.so").write_bytes(b"\x7fELF\x02\x01 and then nothing")
    library(program, "libggml-rpc.so", {})
    assert read_build(program, os.environ).back_ends == frozenset({"rpc"})


# --- the engine's own words, and the real engine


def test_facts_of_an_engine_come_from_its_help(engine_of: Callable[..., Engine]) -> None:
    facts = engine_facts(engine_of())
    assert {"layer", "tensor"} <= facts.split_modes
    assert {"draft-mtp", "ngram-mod"} <= facts.spec_types
    assert (facts.has_load_mode, facts.takes_rpc) == (True, True)
    assert not engine_facts(engine_of("9246")).has_load_mode


@pytest.mark.server
def test_real_engine_is_a_cpu_build_with_rpc(llama_server_path: Path) -> None:
    build = read_build(llama_server_path, os.environ)
    assert build == BuildFacts(back_ends=frozenset({"cpu", "rpc"}))


def test_a_read_is_bounded_in_time() -> None:
    assert build_facts.READ_WITHIN_S <= 2
