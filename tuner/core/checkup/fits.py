"""Whether a command fits: what each device is asked for against what it has, in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.assignment.layers import layer_units
from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.memory.holdings import kv_heads
from tuner.core.memory.words import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.assignment.splits import Splits
    from tuner.core.memory.need import DeviceNeed, Prediction
    from tuner.core.memory.query import MemoryQuery

#: Less than the first: it will not fit; less than the second: it may not.
_HOPELESS, _TIGHT = 0.1, 0.95
#: A real share that is off by more than this is a surprise.
_SURPRISING_SHARE = 0.05
_RATIO_STEPS, _MOST_SHOWN = 40, 8

_STEPS = {
    "weights": "while the weights are loaded",
    "kv": "at the KV cache, after the weights are loaded",
    "recurrent": "at the recurrent state, after the weights are loaded",
    "compute": "at the compute buffers, after the weights are loaded, or goes on without its pipeline",
    "draft": "when the drafts are set up",
    "runtime": "at the first requests",
}


@dataclass(frozen=True, slots=True)
class Room:
    """What a device has."""

    free_mib: float
    reserve_mib: float = 0.0
    """What is to stay free."""

    @property
    def usable_mib(self) -> float:
        """What may be used."""
        return self.free_mib - self.reserve_mib


def fit_checks(
    prediction: Prediction, rooms: Mapping[str, Room], labels: Mapping[str, str], *, fit_decides: bool
) -> list[Check]:
    """A check a device that is exceeded, or nearly.

    Args:
        prediction: What the command needs.
        rooms: What each device has, by the engine's name.
        labels: What people call a device, by the engine's name.
        fit_decides: Whether the engine's own `--fit` would change the command before it fails.
    """
    checks = []
    for name, need in prediction.devices.items():
        if name in rooms:
            checks += _device(name, need, rooms[name], labels.get(name, name), fit_decides=fit_decides)
    return checks


def _device(name: str, need: DeviceNeed, room: Room, label: str, *, fit_decides: bool) -> list[Check]:
    chance = need.chance_to_fit(room.usable_mib)
    asked = f"{need.total:,.0f} MiB asked for, {room.free_mib:,.0f} free"
    if room.reserve_mib:
        asked += f", of which {room.reserve_mib:,.0f} are to stay free"
    over = size(need.total - room.usable_mib)
    if chance < _HOPELESS:
        level = Level.WARNING if fit_decides else Level.PROBLEM
        return [
            Check(
                Topic.FIT,
                label,
                level,
                f"{asked}: {over} too much; {_end(need, room, fit_decides)}",
                f"ask less of {name}",
            )
        ]
    if chance < _TIGHT:
        text = f"{asked}: it may be too much (a chance of {1 - chance:.0%})"
        return [Check(Topic.FIT, label, Level.WARNING, text, f"ask less of {name}, or free memory there")]
    return [Check(Topic.FIT, label, Level.OK, f"{asked}: {size(room.usable_mib - need.total)} to spare")]


def _end(need: DeviceNeed, room: Room, fit_decides: bool) -> str:  # noqa: FBT001 - as in `fit_checks`
    if fit_decides:
        return "--fit is on, and will cut the context or leave layers on the CPU"
    step = need.breaks_at(room.free_mib)
    return "it loads, and the next growth ends it" if step is None else f"it dies {_STEPS[step]}"


def split_check(query: MemoryQuery, splits: Splits, split: tuple[int, ...], *, written: str) -> Check | None:
    """What a ratio really is; None where there is no ratio to speak of.

    Args:
        query: What the command asks for.
        splits: The model's.
        split: The split that the engine uses.
        written: The ratio as the user wrote it; empty where the engine chooses.
    """
    if query.n_devices < 2 or query.mode not in {"layer", "tensor"}:
        return None
    head = f"-ts {written}" if written else "the engine's own split"
    shares = [part / sum(split) for part in split]
    if query.mode == "layer":
        n = min(query.gpu_layers, splits.n_units)
        if n < 1:
            return None  # all of it stays on the host
        units = layer_units(split, n)
        real = [unit / n for unit in units]
        text = f"{head} is {' : '.join(map(str, units))} of {n} units (layers, and the output as the last)"
    else:
        slicer = splits.slicer(query.n_devices)
        heads = kv_heads(splits.model, slicer, split)
        most = max(splits.model.n_head_kv, default=0)
        real = [head_count / (sum(heads) or 1) for head_count in heads]
        text = f"{head} is {' : '.join(f'{one:g}' for one in heads)} of {most} KV heads in each layer"
    surprising = any(abs(one - share) > _SURPRISING_SHARE for one, share in zip(real, shares, strict=True))
    if not surprising or not written:
        return Check(Topic.FIT, "split", Level.OK, text)
    text += f": {_percents(real)} where {_percents(shares)} was asked for"
    return Check(Topic.FIT, "split", Level.WARNING, text, _what_there_is(query, splits))


def _percents(shares: list[float]) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)


def _what_there_is(query: MemoryQuery, splits: Splits) -> str:
    """The ratios of heads that two devices can have."""
    if query.mode != "tensor" or query.n_devices != 2:
        return "take a ratio of whole units"
    slicer = splits.slicer(2)
    ratios: dict[tuple[float, ...], tuple[int, ...]] = {}
    for split in splits.distinct("tensor", 2, _RATIO_STEPS):
        heads = kv_heads(splits.model, slicer, split)
        known = ratios.get(heads)
        if known is None or sum(split) < sum(known):
            ratios[heads] = split
    shown = sorted(ratios.items(), reverse=True)
    if len(shown) > _MOST_SHOWN:
        return "heads are dealt out whole: take a ratio of heads"
    return "there is only " + ", ".join(
        f"{first:g} : {second:g} (-ts {split[0]},{split[1]})" for (first, second), split in shown
    )
