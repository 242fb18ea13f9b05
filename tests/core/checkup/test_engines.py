"""Verdicts on a llama-server and what it was compiled with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.engines import architecture_checks, build_checks, engine_checks
from tuner.core.checkup.facts import Architecture, BuildFacts, CardFacts, DriverFacts, EngineFacts

ENGINE = EngineFacts(
    path="/opt/llama-server",
    version="version: 11434",
    digest="0123456789abcdef",
    split_modes=frozenset({"none", "layer", "row", "tensor"}),
    spec_types=frozenset({"none", "draft-mtp", "ngram-mod"}),
    has_load_mode=True,
    takes_rpc=True,
)
AMPERE = CardFacts(index=0, name="RTX 3090", device="CUDA1", capability=(8, 6))
BLACKWELL = CardFacts(index=1, name="RTX 5080", device="CUDA0", capability=(12, 0))
PAIRS = frozenset((k, k) for k in ("f16", "bf16", "q8_0", "q4_0"))
BUILD = BuildFacts(
    back_ends=frozenset({"cpu", "cuda"}),
    binary=frozenset({Architecture(8, 6), Architecture(12, 0, "a")}),
    ptx=frozenset({Architecture(8, 0)}),
    nccl=True,
    fast_kv_pairs=PAIRS,
    cuda_major=12,
)
DRIVER = DriverFacts(version="580", cuda=(12, 8), cards=(AMPERE, BLACKWELL))


def only(checks: list[Check], part: str) -> Check:
    (found,) = (check for check in checks if part in check.text or part in check.subject)
    return found


def archs(text: str) -> frozenset[Architecture]:
    return frozenset(
        Architecture(int(word.rstrip("af")[:-1]), int(word.rstrip("af")[-1]), word.lstrip("0123456789"))
        for word in text.split()
    )


# --- what the engine says


def test_engine_is_named_with_its_digest() -> None:
    checks = engine_checks(ENGINE, BUILD)
    assert {check.level for check in checks} == {Level.OK}
    assert [check.text for check in checks[:2]] == ["/opt/llama-server", "version: 11434 [0123456789ab]"]
    assert only(checks, "drafts").text == "drafts: draft-mtp, ngram-mod"


def test_engine_without_tensor_mode_or_drafts_is_old() -> None:
    old = replace(
        ENGINE, split_modes=frozenset({"layer"}), spec_types=frozenset({"none"}), has_load_mode=False
    )
    checks = engine_checks(old, BUILD)
    assert [check.remedy for check in checks if check.level is Level.WARNING] == ["use a newer llama.cpp"] * 2
    assert "no --load-mode" in only(checks, "loading").text


@pytest.mark.parametrize(
    ("back_ends", "said"),
    [
        (frozenset({"rpc"}), "compiled in"),
        (frozenset({"cuda"}), "not compiled in"),
        (None, "listed by --help"),
    ],
)
def test_rpc_is_what_was_compiled_and_else_what_is_listed(
    back_ends: frozenset[str] | None, said: str
) -> None:
    checks = engine_checks(ENGINE, BuildFacts(back_ends=back_ends))
    assert only(checks, "RPC").text.endswith(f"RPC: {said}")


# --- architectures


@pytest.mark.parametrize(
    ("binary", "ptx", "capability", "level"),
    [
        ("86", "", (8, 6), Level.OK),
        ("80", "", (8, 6), Level.OK),  # machine code runs on later cards of its major version
        ("86", "", (8, 0), Level.PROBLEM),
        ("86", "", (9, 0), Level.PROBLEM),
        ("90a", "", (9, 0), Level.OK),
        ("120a", "", (12, 1), Level.PROBLEM),  # `a` is for one card only
        ("120f", "", (12, 1), Level.OK),
        ("120f", "", (12, 0), Level.OK),
        ("89", "75 80 90", (12, 0), Level.WARNING),  # PTX of an older card is compiled at first use
        ("89", "90a", (12, 0), Level.PROBLEM),
        ("", "100f", (10, 3), Level.WARNING),
        ("", "100f", (12, 0), Level.PROBLEM),
        ("86", "80", (7, 5), Level.PROBLEM),
        ("", "75", (7, 5), Level.WARNING),
    ],
)
def test_card_needs_machine_code_of_its_kind_or_older_ptx(
    binary: str, ptx: str, capability: tuple[int, int], level: Level
) -> None:
    card = CardFacts(index=0, name="A card", device="CUDA0", capability=capability)
    checks = architecture_checks(BuildFacts(binary=archs(binary), ptx=archs(ptx)), [card])
    assert only(checks, "CUDA0").level is level


def test_card_without_code_is_named_with_the_line_that_builds_for_all() -> None:
    build = replace(BUILD, binary=archs("86"), ptx=frozenset())
    check = only(build_checks(build, DRIVER), "CUDA0")
    assert (check.level, check.subject) == (Level.PROBLEM, "CUDA0 (RTX 5080)")
    assert "no kernel image" in check.text
    assert check.remedy == 'build llama.cpp with -DCMAKE_CUDA_ARCHITECTURES="86;120"'


def test_what_is_compiled_in_is_listed_in_the_order_of_cards() -> None:
    build = replace(BUILD, binary=archs("120a 86 90"), ptx=archs("100 75"))
    check = only(build_checks(build, DRIVER), "machine code")
    assert check.text == "CUDA architectures: machine code for 86 90 120a, PTX for 75 100"


def test_card_of_unknown_capability_is_not_judged() -> None:
    checks = architecture_checks(BUILD, [CardFacts(index=0, device="CUDA0")])
    assert [check.level for check in checks] == [Level.OK]


def test_unreadable_architectures_are_unknown() -> None:
    (check,) = architecture_checks(BuildFacts(), [AMPERE])
    assert check.level is Level.UNKNOWN
    assert check.remedy


# --- the build


def test_good_build_has_no_complaint() -> None:
    assert {check.level for check in build_checks(BUILD, DRIVER)} == {Level.OK}


def test_file_that_cannot_be_read_is_one_line() -> None:
    (check,) = build_checks(BuildFacts(), DRIVER)
    assert check.level is Level.UNKNOWN


def test_build_without_cuda_leaves_cards_idle() -> None:
    (check,) = build_checks(BuildFacts(back_ends=frozenset({"cpu", "rpc"})), DRIVER)
    assert check.level is Level.PROBLEM
    assert "-DGGML_CUDA=ON" in check.remedy
    assert "86;120" in check.remedy


@pytest.mark.parametrize(
    ("back_ends", "driver"),
    [
        (frozenset({"cpu", "vulkan"}), DRIVER),
        (frozenset({"cpu", "rpc"}), DriverFacts()),
        (frozenset(), DriverFacts()),
    ],
)
def test_build_without_cuda_is_right_where_it_uses_what_there_is(
    back_ends: frozenset[str], driver: DriverFacts
) -> None:
    (check,) = build_checks(BuildFacts(back_ends=back_ends), driver)
    assert check.level is Level.OK


def test_newer_cuda_than_the_driver_runs_finds_no_card() -> None:
    check = only(build_checks(replace(BUILD, cuda_major=13), DRIVER), "links to CUDA 13")
    assert check.level is Level.PROBLEM
    assert "12.8" in check.text
    assert "update the driver" in check.remedy


@pytest.mark.parametrize(("driver", "level"), [(DRIVER, Level.PROBLEM), (DriverFacts(), Level.WARNING)])
def test_missing_library_is_named(driver: DriverFacts, level: Level) -> None:
    build = replace(BUILD, missing={"libggml-cuda.so": ("libcudart.so.12", "libcublas.so.12")})
    check = only(build_checks(build, driver), "libggml-cuda.so")
    assert (check.level, check.text) == (level, "cannot be loaded, it lacks libcudart.so.12, libcublas.so.12")


@pytest.mark.parametrize(
    ("nccl", "cards", "level"),
    [
        (True, (AMPERE, BLACKWELL), Level.OK),
        (False, (AMPERE, BLACKWELL), Level.WARNING),
        (False, (AMPERE,), Level.OK),
        (None, (AMPERE, BLACKWELL), Level.UNKNOWN),
    ],
)
def test_nccl_matters_with_two_cards(
    *, nccl: bool | None, cards: tuple[CardFacts, ...], level: Level
) -> None:
    check = only(build_checks(replace(BUILD, nccl=nccl), replace(DRIVER, cards=cards)), "NCCL")
    assert check.level is level
    assert bool(check.remedy) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("pairs", "level", "said"),
    [
        (PAIRS, Level.OK, "alike as f16, bf16, q8_0, q4_0; other pairs"),
        (PAIRS | {("q8_0", "q4_0")}, Level.OK, "q4_0, and q8_0-q4_0; other pairs"),
        (frozenset({("f16", "f16")}), Level.WARNING, "f16 or q8_0 is not among them"),
        (None, Level.UNKNOWN, "cannot be read"),
    ],
)
def test_kv_types_with_a_kernel_are_listed(
    pairs: frozenset[tuple[str, str]] | None, level: Level, said: str
) -> None:
    check = only(build_checks(replace(BUILD, fast_kv_pairs=pairs), DRIVER), "FlashAttention")
    assert check.level is level
    assert said in check.text
    assert check.remedy


def test_build_with_kernels_for_all_pairs_says_so() -> None:
    types = ("f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
    build = replace(BUILD, fast_kv_pairs=frozenset((k, v) for k in types for v in types))
    assert (
        only(build_checks(build, DRIVER), "FlashAttention").text
        == "FlashAttention: for all pairs of KV types"
    )


def test_every_topic_here_is_engine_or_build() -> None:
    checks = engine_checks(ENGINE, BUILD) + build_checks(BUILD, DRIVER)
    assert {check.topic for check in checks} == {Topic.ENGINE, Topic.BUILD}
