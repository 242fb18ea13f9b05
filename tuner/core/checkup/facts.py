"""What is found out before anything is judged. A fact that nobody could tell is None."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A card's compute capability: 8.6 is (8, 6).
Capability = tuple[int, int]


@dataclass(frozen=True, slots=True, order=True)
class Architecture:
    """What a piece of CUDA code was compiled for, as in `sm_120a` or `compute_80`."""

    major: int
    minor: int
    variant: str = ""
    """`a`: for this very capability only; `f`: for its family, the same major number; else empty."""

    def __str__(self) -> str:
        """As CMake writes it: `120a`."""
        return f"{self.major}{self.minor}{self.variant}"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What a llama-server says of itself."""

    path: str
    version: str
    digest: str
    split_modes: frozenset[str]
    """What its help allows for `--split-mode`; empty where it lists none."""
    spec_types: frozenset[str]
    """What its help allows for `--spec-type`; empty where it lists none."""
    has_load_mode: bool
    takes_rpc: bool
    """Whether its help lists `--rpc`; newer ones list it in builds that have no RPC."""


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """What a llama-server was compiled with, read from its files."""

    back_ends: frozenset[str] | None = None
    """Such as `cuda` and `rpc`; None where the file is no binary that could be read."""
    binary: frozenset[Architecture] | None = None
    """What its CUDA machine code is for; None where that could not be read."""
    ptx: frozenset[Architecture] | None = None
    """What the CUDA code is for that the driver still has to compile."""
    nccl: bool | None = None
    fast_kv_pairs: frozenset[tuple[str, str]] | None = None
    """Pairs of KV types (K, V) that have a FlashAttention kernel of their own."""
    cuda_major: int | None = None
    """The CUDA that it links to; None for a static one, or none."""
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Libraries that a back end links to and that are not found, by the back end's file."""

    def has(self, back_end: str) -> bool | None:
        """Whether that back end is there; None where it is not known."""
        return None if self.back_ends is None else back_end in self.back_ends


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What NVIDIA's driver says of one card, beyond identity and memory."""

    index: int
    """As nvidia-smi numbers it."""
    uuid: str | None = None
    name: str | None = None
    bus_id: str | None = None
    device: str | None = None
    """The engine's name for it, where that is known."""
    total_mib: int | None = None
    capability: Capability | None = None
    pcie_max_generation: int | None = None
    """With this board: the lower of what card and slot can do."""
    pcie_card_generation: int | None = None
    """What the card alone could do."""
    pcie_max_width: int | None = None
    """Lanes, of card and slot together."""
    pcie_now: tuple[int, int] | None = None
    """Generation and lanes at this moment: at rest, both may be less than under load."""
    pcie_replays: int | None = None
    """Transfers that had to be repeated since the driver was loaded."""
    bar1_mib: int | None = None
    """The window through which others reach its memory: all of it with Resizable BAR."""
    power_limit_w: float | None = None
    power_default_w: float | None = None
    power_max_w: float | None = None
    persistence: bool | None = None

    @property
    def label(self) -> str:
        """What to call it: the engine's name, else nvidia-smi's number."""
        return self.device or f"GPU {self.index}"


class Topology(StrEnum):
    """Where the ways of two cards meet, nearest first; the values are those of `nvidia-smi topo`."""

    BOARD = "same board"
    SWITCH = "PIX"
    SWITCHES = "PXB"
    BRIDGE = "PHB"
    NODE = "NODE"
    SYSTEM = "SYS"


class PeerAccess(StrEnum):
    """Whether two cards can reach each other's memory."""

    POSSIBLE = "possible"
    CHIPSET = "not supported by the chipset"
    CARD = "not supported by the card"
    TOPOLOGY = "not supported between these slots"
    DISABLED = "switched off in the driver"
    NO = "not supported"


@dataclass(frozen=True, slots=True)
class CardPair:
    """Two cards, by their `index`."""

    first: int
    second: int
    topology: Topology | None = None
    access: PeerAccess | None = None
    nvlink: bool | None = None


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What NVIDIA's driver says; no version and no card where there is none."""

    version: str | None = None
    cuda: tuple[int, int] | None = None
    """The newest CUDA that this driver runs."""
    cards: tuple[CardFacts, ...] = ()
    pairs: tuple[CardPair, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelDisk:
    """How fast a model's file comes from its disk, and how much of it is in memory."""

    read_mib_s: float | None = None
    """Past the page cache; None where that cannot be measured."""
    cached_share: float | None = None
    """Of the model that is in the page cache, from 0 to 1."""
    file_system: str | None = None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The machine around the cards."""

    memory_total_mib: int
    """What may be used: a container's limit, where there is one."""
    memory_available_mib: int
    results_folder: str
    results_free_mib: int | None
    is_wsl: bool
    can_suspend: bool | None
    """Whether the machine can sleep at all."""
    awake_problem: str | None
    """Why it cannot be kept awake; None where it can."""
    model_disk: ModelDisk | None = None
    """None without a model."""
