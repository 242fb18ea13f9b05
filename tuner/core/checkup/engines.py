"""Checks of a llama-server: what it says it can do, and what it was compiled with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.checkup.check import Check, Level, Topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tuner.core.checkup.facts import (
        Architecture,
        BuildFacts,
        Capability,
        CardFacts,
        DriverFacts,
        EngineFacts,
    )

_NEWER = "use a newer llama.cpp"

_KV_TYPES = ("f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
_ALL_PAIRS = frozenset((k, v) for k in _KV_TYPES for v in _KV_TYPES)
_USUAL_PAIRS = frozenset({("f16", "f16"), ("q8_0", "q8_0")})


def engine_checks(engine: EngineFacts, build: BuildFacts) -> list[Check]:
    """What it is, and what of it matters to a search."""
    checks = [
        Check(Topic.ENGINE, "", Level.OK, engine.path),
        Check(Topic.ENGINE, "", Level.OK, f"{engine.version} [{engine.digest[:12]}]"),
    ]
    load = "--load-mode" if engine.has_load_mode else "no --load-mode (--mmap and --mlock instead)"
    modes = f"split modes: {_listed(engine.split_modes)}; loading: {load}; RPC: {_rpc(engine, build)}"
    checks.append(Check(Topic.ENGINE, "", Level.OK, modes))
    if "tensor" not in engine.split_modes:
        text = "no -sm tensor in its --help: one card computes while the others wait"
        checks.append(Check(Topic.ENGINE, "", Level.WARNING, text, _NEWER))
    drafts = engine.spec_types - {"none"}
    if drafts:
        checks.append(Check(Topic.ENGINE, "", Level.OK, f"drafts: {_listed(drafts)}"))
    else:
        checks.append(
            Check(Topic.ENGINE, "", Level.WARNING, "no --spec-type in its --help: no drafts", _NEWER)
        )
    return checks


def _rpc(engine: EngineFacts, build: BuildFacts) -> str:
    match build.has("rpc"):
        case True:
            return "compiled in"
        case False:
            return "not compiled in"
        case None:
            return "listed by --help" if engine.takes_rpc else "no"


def build_checks(build: BuildFacts, driver: DriverFacts) -> list[Check]:
    """What its CUDA back end has for these cards."""
    checks = [
        Check(
            Topic.BUILD,
            file,
            Level.PROBLEM if driver.cards else Level.WARNING,
            f"cannot be loaded, it lacks {', '.join(libraries)}",
            "install them or set LD_LIBRARY_PATH; without this back end its devices are not used"
            if driver.cards
            else "it needs NVIDIA's driver and CUDA's libraries if it is to use a card",
        )
        for file, libraries in build.missing.items()
    ]
    match build.has("cuda"):
        case None:
            return [*checks, _unreadable()]
        case False:
            return [*checks, _without_cuda(build, driver)]
        case True:
            checks.append(_runtime_check(build, driver))
    checks += architecture_checks(build, driver.cards)
    return [*checks, _nccl_check(build, driver.cards), _attention_check(build)]


def _unreadable() -> Check:
    return Check(
        Topic.BUILD,
        "",
        Level.UNKNOWN,
        "what it was compiled with cannot be read: the file is no ELF binary, such as a script that starts one",
        "give the binary itself with --server to have its build checked",
    )


def _without_cuda(build: BuildFacts, driver: DriverFacts) -> Check:
    """A build for other devices; wrong only where NVIDIA's cards are all that there is to use."""
    others = (build.back_ends or frozenset()) - {"cpu", "rpc", "blas"}
    said = f"back ends: {_listed(build.back_ends or ()) or 'cpu'}; no CUDA"
    if driver.cards and not others:
        return Check(
            Topic.BUILD,
            "",
            Level.PROBLEM,
            f"{said}: the {len(driver.cards)} NVIDIA cards here are not used",
            f"build llama.cpp with -DGGML_CUDA=ON {_cmake(driver.cards)}",
        )
    return Check(Topic.BUILD, "", Level.OK, said)


def _runtime_check(build: BuildFacts, driver: DriverFacts) -> Check:
    """A CUDA of a newer major version than the driver knows finds no device at all."""
    said = f"back ends: {_listed(build.back_ends or ())}"
    if build.cuda_major is None or driver.cuda is None:
        return Check(Topic.BUILD, "", Level.OK, said)
    of_driver = ".".join(map(str, driver.cuda))
    if build.cuda_major > driver.cuda[0]:
        return Check(
            Topic.BUILD,
            "",
            Level.PROBLEM,
            f"{said}; it links to CUDA {build.cuda_major}, the driver runs CUDA up to {of_driver}: no card is found",
            f"update the driver, or use a build for CUDA {driver.cuda[0]}",
        )
    return Check(Topic.BUILD, "", Level.OK, f"{said}; CUDA {build.cuda_major}, which the driver runs")


def architecture_checks(build: BuildFacts, cards: Sequence[CardFacts]) -> list[Check]:
    """Whether there is code for each card: machine code, or PTX that the driver compiles at first use."""
    if build.binary is None or build.ptx is None:
        return [
            Check(
                Topic.BUILD,
                "",
                Level.UNKNOWN,
                "for which CUDA architectures it was compiled cannot be read from its files",
                "a launch that ends with 'no kernel image is available' lacks the card's architecture",
            )
        ]
    compiled = f"machine code for {_archs(build.binary)}, PTX for {_archs(build.ptx)}"
    known = [(card, card.capability) for card in cards if card.capability is not None]
    checks = [Check(Topic.BUILD, "", Level.OK, f"CUDA architectures: {compiled}")]
    return checks + [_architecture_check(build, card, capability, cards) for card, capability in known]


def _architecture_check(
    build: BuildFacts, card: CardFacts, capability: Capability, cards: Sequence[CardFacts]
) -> Check:
    number = f"compute capability {capability[0]}.{capability[1]}"
    if any(_binary_runs(architecture, capability) for architecture in build.binary or ()):
        return Check(Topic.BUILD, card.label, Level.OK, f"{number} is compiled in")
    subject = f"{card.label} ({card.name})" if card.name else card.label
    if any(_ptx_runs(architecture, capability) for architecture in build.ptx or ()):
        return Check(
            Topic.BUILD,
            subject,
            Level.WARNING,
            f"{number} only as PTX, which the driver compiles at the first launch: that takes minutes",
            f"launch it once by hand before a run, or build with {_cmake(cards)}",
        )
    return Check(
        Topic.BUILD,
        subject,
        Level.PROBLEM,
        f"{number} is not compiled in: a launch ends with 'no kernel image is available'",
        f"build llama.cpp with {_cmake(cards)}",
    )


def _binary_runs(architecture: Architecture, capability: Capability) -> bool:
    """Machine code runs on its own major version from its minor one up; `a` code on its own card only."""
    if architecture.variant == "a":
        return (architecture.major, architecture.minor) == capability
    return architecture.major == capability[0] and architecture.minor <= capability[1]


def _ptx_runs(architecture: Architecture, capability: Capability) -> bool:
    """PTX can be compiled for any later card, unless it is of one kind (`a`) or family (`f`)."""
    if architecture.variant:
        return _binary_runs(architecture, capability)
    return (architecture.major, architecture.minor) <= capability


def _cmake(cards: Sequence[CardFacts]) -> str:
    numbers = sorted({card.capability for card in cards if card.capability is not None})
    wanted = ";".join(f"{major}{minor}" for major, minor in numbers) or "native"
    return f'-DCMAKE_CUDA_ARCHITECTURES="{wanted}"'


def _nccl_check(build: BuildFacts, cards: Sequence[CardFacts]) -> Check:
    if build.nccl is None:
        return Check(
            Topic.BUILD,
            "",
            Level.UNKNOWN,
            "whether it has NCCL cannot be read from its files",
            "see a launch's log",
        )
    if build.nccl:
        return Check(Topic.BUILD, "", Level.OK, "NCCL: compiled in")
    if len(cards) < 2:
        return Check(Topic.BUILD, "", Level.OK, "NCCL: not compiled in, and one card has no use for it")
    return Check(
        Topic.BUILD,
        "",
        Level.WARNING,
        "NCCL: not compiled in; -sm tensor uses llama.cpp's own all-reduce, maybe slower",
        "install NCCL and build with -DGGML_CUDA_NCCL=ON",
    )


def _attention_check(build: BuildFacts) -> Check:
    pairs = build.fast_kv_pairs
    if pairs is None:
        return Check(
            Topic.BUILD,
            "",
            Level.UNKNOWN,
            "which KV types have a FlashAttention kernel cannot be read from its files",
            "compare the speed of a quantised cache with f16",
        )
    if pairs >= _ALL_PAIRS:
        return Check(Topic.BUILD, "", Level.OK, "FlashAttention: for all pairs of KV types")
    alone = [k for k in _KV_TYPES if (k, k) in pairs]
    mixed = sorted(f"{k}-{v}" for k, v in pairs if k != v)
    said = f"FlashAttention: K and V alike as {', '.join(alone) or 'nothing'}"
    if mixed:
        said += f", and {', '.join(mixed)}"
    if pairs >= _USUAL_PAIRS:
        return Check(
            Topic.BUILD,
            "",
            Level.OK,
            f"{said}; other pairs are far slower",
            "for all of them build with -DGGML_CUDA_FA_QUANTS=all (older: -DGGML_CUDA_FA_ALL_QUANTS=ON)",
        )
    return Check(
        Topic.BUILD,
        "",
        Level.WARNING,
        f"{said}; f16 or q8_0 is not among them",
        'build with -DGGML_CUDA_FA_QUANTS="f16-f16;q8_0-q8_0" or all',
    )


def _archs(architectures: Iterable[Architecture]) -> str:
    return " ".join(map(str, sorted(architectures))) or "none"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))
