"""Where each card is full: the share of the model beyond which a split does not fit any more.

Worked out for the options of each split mode's best candidate, since KV types, batches and drafts move a wall. What
the run itself predicted for that candidate's buffers is met exactly: it may have asked the engine's own tool, and
knows of a projector or a draft model. What no line names is as all launches of the study together have taught it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.memory.holdings import holdings
from tuner.report.view.measured import Measured, measured_candidates, share_pct
from tuner.search.confirmation.result import winner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tuner.core.assignment.splits import Splits
    from tuner.core.candidate import Candidate
    from tuner.core.memory.need import DeviceNeed
    from tuner.core.memory.predict import Predictor
    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.state import Confirmation
    from tuner.search.memory_gate import MemoryGate

#: Splits of tensor mode that are looked at: whole per cents.
_TENSOR_STEPS = 100


@dataclass(frozen=True, slots=True)
class Wall:
    """Where a card is full in one split mode."""

    device: str
    at_pct: float
    """Share of the first device at which it is: between the last split that fits and the first that does not."""
    full_above: bool
    """Whether it is full with larger shares of the first device, or with smaller ones."""


@dataclass(frozen=True, slots=True)
class WallsOfMode:
    """The walls of one split mode."""

    mode: str
    candidate: Candidate
    """Whose options they are worked out for."""
    walls: tuple[Wall, ...]
    nothing_fits: bool
    """Whether every split of that mode exceeds a card."""


@dataclass(frozen=True, slots=True)
class WallsOfModes:
    """The walls of a study, and what each split holds."""

    modes: tuple[WallsOfMode, ...]
    holds: Mapping[str, Mapping[str, str]]
    """By a candidate's key and device: what lies there, in words."""


def walls_of_modes(
    records: Sequence[TrialRecord],
    confirmation: Confirmation | None,
    needs: Mapping[int, Mapping[str, Mapping[str, float]]],
    splits: Splits,
    memory: MemoryGate,
) -> WallsOfModes:
    """The walls of a study.

    Args:
        records: Its trials.
        confirmation: Where its confirmation stands.
        needs: What was predicted before each launch: by trial and device, MiB by part.
        splits: The model's.
        memory: What predicts memory, with all that the study has taught.
    """
    measured = measured_candidates(records, confirmation)
    devices = list(memory.room_mib)
    best = _best_of_modes(measured, winner_of(confirmation, records))

    def needs_of(candidate: Candidate) -> Mapping[str, DeviceNeed]:
        return memory.predictor.predict(candidate.options).devices

    def buffers_mib(key: str) -> Mapping[str, float]:
        said = [needs[record.number] for record in records if record.key == key and needs.get(record.number)]
        return {device: need["total"] - need["runtime"] for device, need in said[-1].items()} if said else {}

    modes = [
        walls_of_mode(
            one.candidate,
            splits,
            devices[0],
            needs_of=needs_of,
            room_mib=memory.room_mib,
            buffers_mib=buffers_mib(one.candidate.key()),
        )
        for one in best.values()
        if len(devices) == 2
    ]
    return WallsOfModes(
        tuple(one for one in modes if one is not None),
        MappingProxyType(
            {one.candidate.key(): _holds(one.candidate, splits, memory.predictor) for one in measured}
        ),
    )


def walls_of_mode(
    candidate: Candidate,
    splits: Splits,
    first: str,
    *,
    needs_of: Callable[[Candidate], Mapping[str, DeviceNeed]],
    room_mib: Mapping[str, float],
    buffers_mib: Mapping[str, float],
) -> WallsOfMode | None:
    """The walls for one candidate's options; None where it is no split over two devices.

    Args:
        candidate: Whose options count; only its split is changed.
        splits: The model's.
        first: The engine's name of the rig's first device.
        needs_of: What a candidate needs of each device.
        room_mib: What may be used of each device.
        buffers_mib: What the run predicted for the candidate's own buffers; empty where that is not known.
    """
    mode = str(candidate.get("split-mode"))
    if mode not in {"layer", "tensor"} or len(candidate.split) != 2:
        return None
    steps = splits.n_units if mode == "layer" else _TENSOR_STEPS
    own = needs_of(candidate)
    off_mib = {name: buffers_mib[name] - need.buffers for name, need in own.items() if name in buffers_mib}
    rows: list[tuple[float, Mapping[str, float]]] = []
    for split in splits.distinct(mode, 2, steps):
        other = candidate.with_options({"tensor-split": split})
        share = share_pct(other, first)
        if share is not None:
            needs = needs_of(other)
            rows.append((share, {name: need.total + off_mib.get(name, 0.0) for name, need in needs.items()}))
    rows.sort(key=lambda row: row[0])
    walls = [wall for device in candidate.devices if (wall := _wall(device, rows, room_mib)) is not None]
    fits = any(all(mib <= room_mib.get(name, mib) for name, mib in need.items()) for _, need in rows)
    return WallsOfMode(mode, candidate, tuple(walls), nothing_fits=bool(rows) and not fits)


def _wall(
    device: str, rows: Sequence[tuple[float, Mapping[str, float]]], room_mib: Mapping[str, float]
) -> Wall | None:
    """Where a device's need passes its room; None where it never does, or always."""
    if device not in room_mib:
        return None
    over = [(share, need.get(device, 0.0) > room_mib[device]) for share, need in rows]
    for (share, full), (next_share, next_full) in pairwise(over):
        if full != next_full:
            return Wall(device, (share + next_share) / 2, full_above=next_full)
    return None


def _best_of_modes(measured: Sequence[Measured], winner: str | None) -> dict[str, Measured]:
    """The fastest of each split mode; the winner for its own, though another made more in one launch."""
    best: dict[str, Measured] = {}
    for one in sorted(measured, key=lambda one: (one.mode, -one.score_tok_s)):
        if one.candidate.key() == winner or (one.may_win and one.mode not in best):
            best[one.mode] = one
    return best


def _holds(candidate: Candidate, splits: Splits, predictor: Predictor) -> dict[str, str]:
    query = predictor.query(candidate.options)
    prediction = predictor.predict_query(query)
    return holdings(
        splits.model, query, prediction, splits.slicer(query.n_devices), predictor.split_of(query)
    )
