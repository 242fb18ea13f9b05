"""The true best of a search space on a played rig, found without trying all of it.

Most options do not interact. What a split costs depends on how the model is placed (mode, devices, cache types),
what drafts yield does not depend on the split, and options that only move memory are best where they take least.
So splits are priced once a placement, all combinations of the rest are sorted by the rate that they would have
with the best split that fits without drafts, and are looked at in that order until none can beat what was found.

Exact up to three devices. Over more of them splits are priced on a coarser grid, and the best is then moved part
by part; over more than four, devices keep the engine's order or its reverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import comb
from typing import TYPE_CHECKING, Protocol, cast

from tuner.core.canonical import canonical, has_ratio
from tuner.core.options import BASE_OPTIONS
from tuner.core.space import (
    Choice,
    Devices,
    FloatRange,
    InRam,
    IntRange,
    Parameter,
    SearchSpace,
    Split,
    broken_rule,
    holds,
)
from tuner.simulate.moves import neighbours, on_grid
from tuner.simulate.setup import CACHE_BITS, setup_of
from tuner.simulate.speed import StepCost, rate_tok_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tuner.core.assignment.splits import Splits
    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.simulate.launcher import SimulatedRig

#: Options that never change a played rate: only memory, prompts, or nothing. The drafts' cache types are not among
#: them: a quantised one is smaller, and is unpacked into a buffer that is larger than what it saves.
_ONLY_MEMORY = frozenset(
    "ubatch-size batch-size kv-unified threads-batch poll prio "
    "cache-ram cache-reuse ctx-checkpoints load-mode no-host repack op-offload swa-full backend-sampling "
    "spec-draft-backend-sampling spec-draft-sampling spec-draft-n-min spec-ngram-mod-n-min spec-ngram-mod-n-max "
    "spec-ngram-mod-n-match".split()
)
#: Up to so many devices every split is priced; beyond, at most so many splits of a list of devices.
_EXACT, _MOST_SPLITS = 3, 500
_ALL_ORDERS = 4
#: Layers that leave each device beyond the least: drafts and caches that are larger need them.
_MORE_IN_RAM = 3
_DRAFTS = frozenset({"spec-type", "spec-draft-n-max", "spec-draft-p-min"})

Options = dict[str, "Value"]
Ratio = tuple[int, ...]


class Bound(Protocol):
    """A search space on a rig."""

    @property
    def space(self) -> SearchSpace:
        """The space."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that may be used."""

    @property
    def splits(self) -> Splits:
        """Which splits of the model there are."""

    @property
    def imposed(self) -> Mapping[str, Value]:
        """Options that every candidate has."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """A combination of everything but the split, and the splits that fit without drafts."""

    most_tok_s: float
    options: Options
    placed: tuple[tuple[StepCost, Options], ...]
    """What a step costs, and the options of the split and of what lies in RAM."""


def true_best(rig: SimulatedRig, bound: Bound) -> tuple[Candidate, float]:
    """The candidate with the highest true rate, and that rate.

    Raises:
        ValueError: Nothing in the space can run.
    """
    search = _Search(rig, bound)
    best: tuple[Candidate, float] | None = None
    for priced in sorted(search.priced(), key=lambda one: -one.most_tok_s):
        if best is not None and priced.most_tok_s <= best[1]:
            break
        best = search.better(priced, best)
    if best is None:
        raise ValueError(f"{rig.rig.name}: nothing in the space {bound.space.name} can run")
    return search.moved(best) if len(best[0].split) > _EXACT else best


class _Search:
    """Enumerates a space's combinations."""

    def __init__(self, rig: SimulatedRig, bound: Bound) -> None:
        self._rig, self._bound = rig, bound
        named = {name for curse in rig.rig.quirks.curses for name, _ in curse.when}
        named |= {name for condition in rig.rig.quirks.unsupported for name, _ in condition}
        self._named = named
        self._placed: dict[tuple[tuple[str, Value], ...], tuple[tuple[StepCost, Options], ...]] = {}

    def priced(self) -> Iterator[_Priced]:
        """Every combination for which some split may fit."""
        for options in self._combinations(list(self._bound.space.parameters), self._start()):
            splits = self._splits_of(options)
            if splits:
                yield _Priced(max(self._rates(options, splits)), options, splits)

    def better(self, priced: _Priced, best: tuple[Candidate, float] | None) -> tuple[Candidate, float] | None:
        """The best of a combination's splits, where it beats what was found so far."""
        rates = self._rates(priced.options, priced.placed)
        for rate, (_, placement) in sorted(
            zip(rates, priced.placed, strict=True), key=lambda row: row[0], reverse=True
        ):
            if best is not None and rate <= best[1]:
                break
            options = {**placement, **priced.options}
            candidate = canonical(options, self._bound.splits)
            true = self._rig.true_rate(candidate)
            if true is not None and (best is None or true > best[1]):
                best = (candidate, true)
        return best

    def _start(self) -> Options:
        return {
            **BASE_OPTIONS,
            "device": self._bound.devices,
            **self._bound.space.fixed,
            **self._bound.imposed,
        }

    def _combinations(self, left: list[Parameter], options: Options) -> Iterator[Options]:
        """All values of parameters that matter; those that only take memory have what takes least."""
        if not left:
            yield from self._with_least_memory(options)
            return
        first, rest = left[0], left[1:]
        if self._skipped(first, options):
            yield from self._combinations(rest, options)
            return
        for value in self._values(first, options):
            yield from self._combinations(rest, {**options, first.name: value})

    def _skipped(self, parameter: Parameter, options: Options) -> bool:
        return (
            isinstance(parameter, Split | InRam)
            or parameter.name in self._bound.imposed
            or not holds(parameter.when, options)
            or (parameter.name in _ONLY_MEMORY and parameter.name not in self._named)
        )

    def _with_least_memory(self, options: Options) -> Iterator[Options]:
        """The first combination of what was skipped that keeps the rules."""
        open_ones = [
            parameter
            for parameter in self._bound.space.parameters
            if not isinstance(parameter, Split | InRam)
            and parameter.name in _ONLY_MEMORY - self._named
            and parameter.name not in self._bound.imposed
            and holds(parameter.when, options)
        ]
        names = [parameter.name for parameter in open_ones]
        for values in product(*(sorted(self._values(p, options), key=_weight) for p in open_ones)):
            whole = {**options, **dict(zip(names, values, strict=True))}
            if broken_rule(self._bound.space, whole) is None:
                yield whole
                return

    def _values(self, parameter: Parameter, options: Options) -> tuple[Value, ...]:
        match parameter:
            case Choice(choices=choices):
                return choices
            case IntRange(low=low, high=high, step=step):
                return tuple(range(low, high + 1, step))
            case FloatRange(low=low, high=high, step=step):
                return tuple(round(low + step * at, 9) for at in range(round((high - low) / step) + 1))
            case Devices():
                return self._device_lists(parameter, options)
            case Split() | InRam():
                return ()

    def _device_lists(self, parameter: Devices, options: Options) -> tuple[tuple[str, ...], ...]:
        names = self._bound.devices
        if options["split-mode"] == "none" or len(names) == 1:
            return tuple((name,) for name in names)
        sizes = range(len(names), 1, -1) if parameter.subsets else (len(names),)
        if parameter.orders and len(names) > _ALL_ORDERS:
            both = (names, names[::-1])
            return tuple(chosen for size in sizes for order in both for chosen in combinations(order, size))
        arrange = permutations if parameter.orders else combinations
        return tuple(chosen for size in sizes for chosen in arrange(names, size))

    def _splits_of(self, options: Options) -> tuple[tuple[StepCost, Options], ...]:
        """Splits that fit without drafts, and what a step of each costs."""
        placement = {name: value for name, value in options.items() if name not in _DRAFTS}
        placement = {name: value for name, value in placement.items() if not name.startswith("spec-")}
        key = tuple(placement.items())
        if key not in self._placed:
            self._placed[key] = tuple(self._price(placement))
        return self._placed[key]

    def _price(self, placement: Options) -> Iterator[tuple[StepCost, Options]]:
        for split in self._ratios(placement):
            plain: Options = {**placement, **({"tensor-split": split} if len(split) > 1 else {})}
            for options in self._in_ram(plain, split):
                setup = setup_of(self._rig.rig, options)
                if self._rig.need(setup).fits:
                    yield self._rig.step_cost(setup), options

    def _in_ram(self, options: Options, split: Ratio) -> Iterator[Options]:
        """With nothing in RAM, and where the space has it, with the least that fits and some layers more."""
        yield options
        parameter = self._bound.space.parameter("override-tensor")
        if not isinstance(parameter, InRam) or options["split-mode"] == "tensor":
            return
        parts = self._bound.splits.host_parts
        own = parts.own(split if len(split) > 1 else (1,), self._bound.splits.n_units)
        counts = self._least_in_ram(options, own)
        if counts is None:
            return
        for more in product(range(_MORE_IN_RAM + 1), repeat=len(counts)):
            wanted = [min(count + one, len(row)) for count, one, row in zip(counts, more, own, strict=True)]
            yield {**options, **parts.options(parts.leaving(own, wanted))}

    def _least_in_ram(self, options: Options, own: list[list[int]]) -> list[int] | None:
        """How many layers have to leave each device; None where all are not enough."""
        parts = self._bound.splits.host_parts
        counts = [0] * len(own)
        while True:
            need = self._rig.need(
                setup_of(self._rig.rig, {**options, **parts.options(parts.leaving(own, counts))})
            )
            over = [
                place
                for place, (total, room) in enumerate(zip(need.totals_mib, need.rooms_mib, strict=True))
                if total > room
            ]
            if not over:
                return counts
            if any(counts[place] >= len(own[place]) for place in over):
                return None
            for place in over:
                counts[place] += 1

    def _ratios(self, options: Options) -> tuple[Ratio, ...]:
        parameter = next((p for p in self._bound.space.parameters if isinstance(p, Split)), None)
        n = len(cast("tuple[str, ...]", options["device"]))
        mode = str(options["split-mode"])
        if n == 1 or not has_ratio(mode):
            return ((1,),)
        fixed = options.get("tensor-split")
        if parameter is None or not holds(parameter.when, options):
            return (cast("Ratio", fixed) if isinstance(fixed, tuple) else (1,) * n,)
        steps = self._steps(parameter, mode, n)
        while n > _EXACT and steps > n and comb(steps - 1, n - 1) > _MOST_SPLITS:
            steps -= 1
        return self._bound.splits.distinct(mode, n, steps)

    def _steps(self, parameter: Split, mode: str, n_devices: int) -> int:
        units = self._bound.splits.n_units
        steps = parameter.tensor_steps if mode == "tensor" else min(parameter.layer_steps or units, units)
        return max(steps, n_devices)

    def moved(self, best: tuple[Candidate, float]) -> tuple[Candidate, float]:
        """The best, after parts have gone from device to device for as long as that helps."""
        parameter = next(p for p in self._bound.space.parameters if isinstance(p, Split))
        options, n = best[0].options, len(best[0].split)
        steps = self._steps(parameter, str(options["split-mode"]), n)
        parts = on_grid(best[0].split, steps)
        improved = True
        while improved:
            improved = False
            for split in neighbours(parts):
                candidate = canonical({**options, "tensor-split": split}, self._bound.splits)
                true = self._rig.true_rate(candidate)
                if true is not None and true > best[1]:
                    best, parts, improved = (candidate, true), split, True
        return best

    def _rates(self, options: Options, splits: tuple[tuple[StepCost, Options], ...]) -> list[float]:
        """What the splits would make, were there memory for the drafts and no curse."""
        setup = setup_of(self._rig.rig, options)
        return [rate_tok_s(self._rig.rig, setup, cost) for cost, _ in splits]


def _weight(value: Value) -> float:
    """Orders values of an option by the memory that they take."""
    if isinstance(value, (int, float)):
        return float(value)
    return CACHE_BITS.get(value, 0.0) if isinstance(value, str) else 0.0
