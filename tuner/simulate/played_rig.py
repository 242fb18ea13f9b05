"""A rig that is played: what its cards, its link, its model and its oddities are, as values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.rig import Device, Rig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.space import Condition


@dataclass(frozen=True, slots=True)
class PlayedDevice:
    """One card."""

    name: str
    """The engine's name, such as `CUDA0`."""
    desc: str
    mem_mib: int
    free_mib: int
    bw: float
    """Effective bytes a second of a decode step."""
    flops: float
    """Effective FLOP a second of a prompt."""
    display_mib: int = 0
    """What a desktop takes of `free_mib`."""
    lag_us: float = 0.0
    """What is added to a part of a tensor-mode step for which the others wait for this card."""

    @property
    def room_mib(self) -> int:
        """What a server can have."""
        return max(self.free_mib - self.display_mib, 0)

    @property
    def is_cuda(self) -> bool:
        """Whether NCCL can be used on it."""
        return self.name.startswith("CUDA")


@dataclass(frozen=True, slots=True)
class Link:
    """What passes between cards."""

    reduce_us: float
    """One reduction of tensor mode, through NCCL."""
    hop_us: float
    """One boundary of layer mode."""
    internal: float = 1.0
    """Factor of a reduction without NCCL."""
    p2p: float = 1.0
    """Factor of a reduction with `GGML_CUDA_P2P`."""


@dataclass(frozen=True, slots=True)
class PlayedModel:
    """The model's shape and what its steps cost."""

    layers: int
    """Without MTP layers."""
    full_attn_layers: int
    """Those with a KV cache; the others keep a recurrent state."""
    kv_heads: int
    head_dim: int
    layers_mib: float
    output_mib: float
    flops_tok: float
    """FLOP a prompt token."""
    attn_part: float
    """Which part of `layers_mib` is attention, or what stands in its place."""
    mtp_layers: int
    mtp_mib: float
    rs_mib: float
    """Recurrent state of all layers, for one sequence without drafts."""
    ctx_train: int
    compute_scale: float
    load_s: float
    overhead_ms: float
    verify: float
    """What each further token adds to a step's transfer, as a factor."""
    draft_ms: float
    """A pass that drafts a token, beyond what it reads."""
    draft_sync_ms: float
    """What such a pass takes more in tensor mode."""
    accept: Mapping[str, tuple[float, ...]]
    """By prompt class: the probability that the draft is accepted up to and with this position."""
    n_embd: int | None = None
    n_ff: int | None = None
    experts: int = 0
    """Experts of a layer; 0 for a dense model."""
    experts_used: int = 0
    """Of them those that a token passes."""

    @property
    def used_part(self) -> float:
        """The part of a layer's feed-forward weights that a token reads."""
        return self.experts_used / self.experts if self.experts else 1.0

    def read_part(self, tokens: float) -> float:
        """How much more than one token's so many tokens read of them: each picks its experts anew."""
        if not self.experts:
            return 1.0
        return float((1 - (1 - self.used_part) ** tokens) / self.used_part)

    def accepted(self, prompt_class: str) -> tuple[float, ...]:
        """The probabilities of a class; those of `default` where it has none."""
        return self.accept.get(prompt_class) or self.accept.get("default", ())


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations, as parts of a rate."""

    base: float = 0.0
    """A request's."""
    per_draft: float = 0.0
    """A request's, for each token that is drafted at most."""
    launch: float = 0.0
    """What all requests of a launch share."""


@dataclass(frozen=True, slots=True)
class Curse:
    """A combination that is slower than it should be."""

    slow: float
    """How many times slower, above 1."""
    when: Condition


@dataclass(frozen=True, slots=True)
class PageCache:
    """What the first launch suffers while the file is not in memory."""

    first_load_slow: float = 1.0
    """How many times longer it loads."""
    first_rate: float = 1.0
    """What is left of its rate."""


@dataclass(frozen=True, slots=True)
class Quirks:
    """What a rig has that no formula knows."""

    curses: tuple[Curse, ...] = ()
    garbage: frozenset[str] = frozenset()
    """Split modes that answer nonsense."""
    unsupported: tuple[Condition, ...] = ()
    """Options with which the server refuses to start."""
    splits_cost_us: float = 0.0
    """Layer mode: added to a step for each unit above an even share on the card with the most bandwidth."""
    page_cache: PageCache = field(default_factory=PageCache)


@dataclass(frozen=True, slots=True)
class PlayedHost:
    """The machine around the cards."""

    bw: float = 5e10
    """Bytes a second of layers, and of experts, that lie in its memory."""
    ram_mib: float = inf
    """What a server can have of it."""
    cores: int = 8
    """Of the processor; with fewer threads than half of them memory is not used to the full."""
    busy: float = 0.9
    """What is left of its speed with more threads than cores."""
    bus: float = 2e10
    """Bytes a second from it to a card."""
    sync_us: float = 60.0
    """A change from a card to the host and back."""

    def speed(self, threads: int | None) -> float:
        """Bytes a second with so many threads; as many as there are cores if None."""
        if threads is None:
            return self.bw
        if threads > self.cores:
            return self.bw * self.busy
        return self.bw * min(threads / (self.cores / 2), 1.0)


@dataclass(frozen=True, slots=True)
class PlayedWorkload:
    """What is asked of a server."""

    ctx: int = 16_384
    prompt_tokens: int = 512
    max_tokens: int = 128
    classes: tuple[str, ...] = ("code", "prose", "chat")
    requests: int = 2
    """Of each class."""

    @property
    def depth(self) -> int:
        """Tokens of context that a decode step reads on average."""
        return min(self.prompt_tokens + self.max_tokens // 2, self.ctx)


@dataclass(frozen=True, slots=True)
class PlayedRig:
    """Everything that a launch on a played rig depends on."""

    name: str
    build: int
    devices: tuple[PlayedDevice, ...]
    link: Link
    host: PlayedHost
    model: PlayedModel
    noise: Noise = field(default_factory=Noise)
    quirks: Quirks = field(default_factory=Quirks)
    workload: PlayedWorkload = field(default_factory=PlayedWorkload)

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names, in the engine's order."""
        return tuple(device.name for device in self.devices)

    def device(self, name: str) -> PlayedDevice:
        """The device of that name.

        Raises:
            ValueError: No device has that name.
        """
        for device in self.devices:
            if device.name == name:
                return device
        raise ValueError(f"{self.name}: no device {name!r}; it has {', '.join(self.names)}")

    def as_seen(self) -> Rig:
        """The rig as the engine and the driver would describe it."""
        return Rig(
            tuple(
                Device(
                    device.name,
                    device.desc,
                    device.mem_mib,
                    device.room_mib,
                    uuid=f"GPU-{self.name}-{device.name}",
                    used_by_others_mib=device.display_mib,
                )
                for device in self.devices
            ),
            driver="played",
        )

    def scaled(self, factor: float) -> PlayedRig:
        """The same rig with its reductions, overhead and noise multiplied."""
        noise = Noise(self.noise.base * factor, self.noise.per_draft * factor, self.noise.launch * factor)
        return replace(
            self,
            link=replace(self.link, reduce_us=self.link.reduce_us * factor),
            model=replace(self.model, overhead_ms=self.model.overhead_ms * factor),
            noise=noise,
        )


#: Acceptance where a file with MTP layers gives none.
DEFAULT_ACCEPT: Mapping[str, tuple[float, ...]] = MappingProxyType({"default": (0.8, 0.65, 0.52, 0.42)})
