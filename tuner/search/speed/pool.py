"""All configurations that the speed model tells apart, as vectors and as options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from tuner.core.memory.query import bits
from tuner.core.options import ALLREDUCE
from tuner.core.space import Choice, Devices, FloatRange, IntRange, Split, holds
from tuner.search.speed.model import Rows
from tuner.search.speed.reading import Reading
from tuner.search.speed.sites import Site, sites

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tuner.core.candidate import Candidate
    from tuner.core.host_parts import HostParts
    from tuner.core.options import Value
    from tuner.search.coordinates import BoundSpace
    from tuner.search.speed.in_ram import RamSites

_MTP = "draft-mtp"
_F16 = frozenset({"f16", "bf16", "f32"})


@dataclass(frozen=True, slots=True)
class Variant:
    """Options beside the site that change the speed."""

    cache: str
    depth: int
    drafts: str
    """Kinds of drafts; `none` without."""
    reduction: str | None
    """How reductions go; None where there are none, or nothing to choose."""


class Pool:
    """The configurations of a space.

    Args:
        bound: The space on the rig.
        streams: Requests at the same time.
        ram: What has to lie in RAM; None where nothing may.
    """

    def __init__(self, bound: BoundSpace, streams: int = 1, ram: RamSites | None = None) -> None:
        self._bound = bound
        self._streams = streams
        self.reading = Reading(bound.splits, bound.devices)
        self.entries: list[tuple[Site, Variant]] = [
            (site, variant)
            for site in (self._sites() if ram is None else ram.of(self._sites()))
            for variant in self._variants(site)
        ]
        self.rows = self._rows(self.entries)

    def least_bytes(self, n_ctx: int) -> NDArray[np.float64]:
        """What each entry takes of each device of the rig at least: what a token reads, and the cache."""
        model = self._bound.splits.model
        caches = {
            kind: model.kv_bytes(n_ctx, bits(kind), bits(kind))
            for kind in {variant.cache for _, variant in self.entries}
        }
        sizes = self.rows.read_bytes.copy()
        for place, (site, variant) in enumerate(self.entries):
            sizes[place] += caches[variant.cache] * self.reading.cache_share(site)
        return sizes

    def options(self, place: int) -> dict[str, Value]:
        """The options of an entry; what they leave open has no part in the speed."""
        site, variant = self.entries[place]
        options: dict[str, Value] = {
            "split-mode": site.mode,
            "device": site.devices,
            "cache-type-k": variant.cache,
            "spec-type": variant.drafts,
        }
        if "cache-type-v" not in self._bound.space.fixed:
            options["cache-type-v"] = variant.cache
        if site.split:
            options["tensor-split"] = site.split
        options |= self._bound.splits.host_parts.options(site.in_ram)
        if variant.depth:
            options["spec-draft-n-max"] = variant.depth
            options |= self._every_draft()
        if variant.reduction is not None:
            options[ALLREDUCE] = variant.reduction
        return options

    def plain_layers(self) -> int | None:
        """An entry that is like what the engine does by itself: by layers, f16, no drafts; None where there is none.

        Where a rig has one device, that is the entry on it.
        """
        boundaries = float(len(self._bound.devices) - 1)
        is_plain = ~self.rows.tensor & (self.rows.boundaries == boundaries)
        for column in (self.rows.depth, self.rows.quantised, self.rows.ngram):
            is_plain &= column == 0
        return int(np.argmax(is_plain)) if is_plain.any() else None

    def _every_draft(self) -> dict[str, Value]:
        """The least sure draft that the space allows: the model knows of none that is given up early."""
        parameter = self._bound.space.parameter("spec-draft-p-min")
        if isinstance(parameter, Choice):
            return {parameter.name: min(cast("tuple[float, ...]", parameter.choices))}
        return {parameter.name: parameter.low} if isinstance(parameter, FloatRange) else {}

    def rows_of(self, candidates: Sequence[Candidate]) -> Rows:
        """Measured candidates as vectors, whatever their other options are."""
        parts = self._bound.splits.host_parts
        return self._rows([_entry(candidate, parts) for candidate in candidates])

    def _rows(self, entries: Sequence[tuple[Site, Variant]]) -> Rows:
        n = len(entries)
        read = np.zeros((n, len(self._bound.devices)))
        drafting = np.zeros_like(read)
        host = np.array([self.reading.of_host(site) for site, _ in entries], dtype=np.float64)
        for place, (site, _) in enumerate(entries):
            read[place], drafting[place] = self.reading.of_token(site), self.reading.of_draft(site)
        tensor = np.array([site.mode == "tensor" for site, _ in entries], dtype=bool)
        return Rows(
            tensor=tensor,
            read_bytes=read,
            host_bytes=host,
            draft_bytes=drafting,
            boundaries=np.array(
                [0.0 if site.mode == "tensor" else float(len(site.devices) - 1) for site, _ in entries]
            ),
            depth=_column(entries, lambda variant: float(variant.depth)),
            quantised=_column(entries, lambda variant: float(variant.cache not in _F16)),
            internal=_column(entries, lambda variant: float(variant.reduction not in {None, "nccl"})),
            ngram=_column(entries, lambda variant: float("ngram" in variant.drafts)),
            streams=np.full(n, float(self._streams)),
        )

    def _sites(self) -> list[Site]:
        space = self._bound.space
        devices = space.parameter("device")
        split = space.parameter("tensor-split")
        given = self._bound.imposed.get("tensor-split", space.fixed.get("tensor-split", ()))
        found = list(
            sites(
                self._bound.splits,
                self._bound.devices,
                modes=cast("tuple[str, ...]", self._choices("split-mode", "layer")),
                tensor_steps=split.tensor_steps if isinstance(split, Split) else 2,
                orders=isinstance(devices, Devices) and devices.orders,
                subsets=isinstance(devices, Devices) and devices.subsets,
                only=None if isinstance(split, Split) else cast("tuple[int, ...]", given),
            )
        )
        if isinstance(devices, Devices):
            return found
        first = self._bound.devices[:1]  # what a mode for one device takes of a list that is not varied
        return [site for site in found if len(site.devices) > 1 or site.devices == first]

    def _variants(self, site: Site) -> list[Variant]:
        reductions: tuple[Value | None, ...] = (None,)
        parameter = self._bound.space.parameter(ALLREDUCE)
        if isinstance(parameter, Choice) and holds(parameter.when, {"split-mode": site.mode}):
            reductions = parameter.choices
        return [
            Variant(str(cache), depth, drafts, None if reduction is None else str(reduction))
            for cache in self._choices("cache-type-k", "f16")
            for drafts, depth in self._drafts()
            for reduction in reductions
        ]

    def _drafts(self) -> list[tuple[str, int]]:
        kinds = [str(kind) for kind in self._choices("spec-type", "none")]
        found = [("none", 0)] if "none" in kinds else []
        drafting = next((kind for kind in (_MTP, "draft-simple") if kind in kinds), None)
        if drafting is not None:
            found += [(drafting, depth) for depth in self._depths()]
        return found or [(kinds[0], 0)]

    def _depths(self) -> range:
        parameter = self._bound.space.parameter("spec-draft-n-max")
        if isinstance(parameter, IntRange):
            return range(parameter.low, parameter.high + 1, parameter.step)
        fixed = self._bound.space.fixed.get("spec-draft-n-max", 3)
        return range(cast("int", fixed), cast("int", fixed) + 1)

    def _choices(self, name: str, otherwise: str) -> tuple[Value, ...]:
        if name in self._bound.imposed:
            return (self._bound.imposed[name],)
        parameter = self._bound.space.parameter(name)
        if isinstance(parameter, Choice):
            return parameter.choices
        return (self._bound.space.fixed.get(name, otherwise),)


def _column(entries: Sequence[tuple[Site, Variant]], of: Callable[[Variant], float]) -> NDArray[np.float64]:
    return np.array([of(variant) for _, variant in entries], dtype=np.float64)


def _entry(candidate: Candidate, parts: HostParts) -> tuple[Site, Variant]:
    options: Mapping[str, Value] = candidate.options
    drafts = str(options.get("spec-type", "none"))
    drafting = any(kind.startswith("draft-") for kind in drafts.split(","))
    depth = options.get("spec-draft-n-max", 3) if drafting else 0
    reduction = options.get(ALLREDUCE)
    return (
        Site(str(options["split-mode"]), candidate.devices, candidate.split, _in_ram(options, parts)),
        Variant(
            cache=str(options.get("cache-type-k", "f16")),
            depth=cast("int", depth),
            drafts=drafts,
            reduction=None if reduction is None else str(reduction),
        ),
    )


def _in_ram(options: Mapping[str, Value], parts: HostParts) -> tuple[int, ...]:
    """Layers of the trunk whose experts, or feed-forward parts, some options put into RAM."""
    return tuple(layer for layer in parts.in_ram(options) or () if layer in parts.sizes)
