"""Where a model that does not fit can lie: for each split by layers, the fewest layers that have to leave for RAM.

More in RAM than has to be is never faster, so of all placements those are enough that leave just room for a cache,
drafts and a batch; and one layer more, since what a launch takes is not known to the last MiB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import TYPE_CHECKING, cast

from tuner.core.memory.host_fit import HostRoom
from tuner.core.space import IntRange
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tuner.core.memory.predict import Predictor
    from tuner.core.options import Value
    from tuner.search.coordinates import BoundSpace
    from tuner.search.speed.sites import Site

#: A split that needs so many layers more in RAM than the best, and this part of them, is not looked at.
_MORE_LAYERS, _MORE_PART = 2, 0.1


@dataclass(frozen=True, slots=True)
class RamSites:
    """What has to lie in RAM, by what is known of memory."""

    bound: BoundSpace
    predictor: Predictor
    room_mib: Mapping[str, float]
    host_room_mib: float = inf

    def of(self, sites: Sequence[Site]) -> list[Site]:
        """Those sites with what has to lie in RAM, each several times; all as they are where it does not help."""
        demands = self._demands()
        lean = {site: self._held(site, demands[0]) for site in sites if site.mode != "tensor"}
        counts = [len(held) for several in lean.values() for held in several]
        if not counts:
            return list(sites)
        most = min(counts) + max(_MORE_LAYERS, round(_MORE_PART * min(counts)))
        found: dict[Site, None] = {site: None for site in sites if site.mode == "tensor"}
        for site, several in lean.items():
            alone = len(site.devices) == 1
            if not several or (min(map(len, several)) > most and not alone):
                continue
            held = dict.fromkeys(several)
            for demand in demands[1:]:
                held |= dict.fromkeys(self._held(site, demand))
            for layers in held:
                for more in self._with_one_more(site, layers):
                    found[replace(site, in_ram=more)] = None
        return list(found)

    def _held(self, site: Site, demand: Mapping[str, Value]) -> list[tuple[int, ...]]:
        """The least that a site leaves in RAM with a cache, drafts and a batch; nothing where it cannot fit."""
        options = complete(self.bound, {**demand, "split-mode": site.mode, "device": site.devices}).options
        splits = self.bound.splits
        room = HostRoom.of(
            {**options, "device": site.devices}, self.predictor, splits, self.room_mib, self.host_room_mib
        )
        if room is None:
            return []
        split = site.split if len(site.devices) > 1 else (splits.n_units,)
        return list(dict.fromkeys(fit.host_layers for fit in room.settled(split)))

    def _with_one_more(self, site: Site, layers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """As it is, and with one layer more of each device, and of all."""
        yield layers
        if not layers:
            return
        parts, n_units = self.bound.splits.host_parts, self.bound.splits.n_units
        own = parts.own(site.split if len(site.devices) > 1 else (n_units,), n_units)
        counts = [len(set(layers).intersection(row)) for row in own]
        for more in product((0, 1), repeat=len(counts)):
            if sum(more) in {1, len(counts)}:
                yield parts.leaving(own, [count + one for count, one in zip(counts, more, strict=True)])

    def _demands(self) -> list[dict[str, Value]]:
        """Caches, drafts and batches that differ in what they take, the least first."""
        space = self.bound.space
        caches = space.choices("cache-type-k") or (None,)
        batches = sorted(cast("Iterable[int]", space.choices("ubatch-size")))
        kinds = [kind for kind in space.choices("spec-type") if str(kind).startswith("draft-")][:1]
        depth = space.parameter("spec-draft-n-max")
        drafting: dict[str, Value] = {"spec-type": kinds[0]} if kinds else {}
        if drafting and isinstance(depth, IntRange):
            drafting["spec-draft-n-max"] = depth.high
        rows = []
        for cache, batch, drafts in product(
            reversed(caches),
            dict.fromkeys((*batches[:1], *batches[-1:])) or (None,),
            ({"spec-type": "none"}, drafting),
        ):
            row: dict[str, Value] = {**drafts}
            if cache is not None:
                row |= {"cache-type-k": cache, "cache-type-v": cache}
            if batch is not None:
                row["ubatch-size"] = batch
                if whole := space.choices("batch-size"):
                    row["batch-size"] = max(cast("Iterable[int]", whole))
            rows.append(row)
        return [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in rows)]
