"""Speed against split: one curve a split mode, what each card holds, and where each card is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.report.view.measured import Measured, measured_candidates, share_pct
from tuner.report.view.table import Table, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.view.inputs import ReportInputs
    from tuner.report.view.walls import WallsOfMode

#: In which order split modes are shown.
MODES = ("layer", "tensor", "row", "none")
#: Of what was slower at its split no more than so many are shown of a mode, the fastest.
_MOST_OTHERS = 300


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """One measured candidate."""

    share_pct: float
    """What the first device holds."""
    tok_s: float
    trial: int
    configuration: str
    holds: str
    """What lies on which device."""
    may_win: bool


@dataclass(frozen=True, slots=True)
class SplitCurve:
    """One split mode."""

    mode: str
    best: tuple[SplitPoint, ...]
    """The fastest at each share, from the smallest share up."""
    others: tuple[SplitPoint, ...]
    """What was slower at a share: other batches, KV types, drafts."""


@dataclass(frozen=True, slots=True)
class SplitSpeed:
    """The section."""

    first: str
    """The engine's name of the device whose share is counted."""
    curves: tuple[SplitCurve, ...]
    walls: tuple[WallsOfMode, ...]
    sentences: tuple[str, ...]
    """What is to be said of the walls."""
    alt: str


def split_speed(inputs: ReportInputs) -> SplitSpeed | None:
    """The section; None for a study over one device, or in which nothing was measured."""
    devices = [device["name"] for device in inputs.facts["devices"]]
    found = measured_candidates(inputs.records, inputs.confirmation)
    if len(devices) < 2 or not found:
        return None
    first = devices[0]
    curves = tuple(
        curve
        for mode in dict.fromkeys([*MODES, *(one.mode for one in found)])
        if (curve := _curve(mode, [one for one in found if one.mode == mode], first, inputs)) is not None
    )
    walls = () if inputs.walls is None else inputs.walls.modes
    return SplitSpeed(
        first=first,
        curves=curves,
        walls=walls,
        sentences=tuple(_wall_sentences(inputs, len(devices))),
        alt=_alt(curves, walls, first),
    )


def split_table(section: SplitSpeed) -> Table:
    """All points as figures, by mode and share."""
    points = [
        (curve.mode, point)
        for curve in section.curves
        for point in sorted((*curve.best, *curve.others), key=lambda one: (one.share_pct, -one.tok_s))
    ]
    return table(
        f"mode|>{section.first} holds|>tok/s|configuration|what lies where|>trial",
        [
            (
                mode,
                f"{point.share_pct:.0f} %",
                f"{point.tok_s:.1f}",
                point.configuration,
                point.holds,
                str(point.trial),
            )
            for mode, point in points
        ],
    )


def _curve(mode: str, found: Sequence[Measured], first: str, inputs: ReportInputs) -> SplitCurve | None:
    points: dict[float, list[SplitPoint]] = {}
    for one in found:
        share = share_pct(one.candidate, first)
        if share is not None:
            point = SplitPoint(
                share,
                one.score_tok_s,
                one.record.number,
                one.candidate.summary(),
                _holds(one, inputs),
                one.may_win,
            )
            points.setdefault(round(share, 3), []).append(point)
    if not points:
        return None
    best, others = [], []
    for share in sorted(points):
        ranked = sorted(points[share], key=lambda one: (not one.may_win, -one.tok_s))
        best.append(ranked[0])
        others += ranked[1:]
    fastest = sorted(others, key=lambda one: -one.tok_s)[:_MOST_OTHERS]
    return SplitCurve(mode, tuple(best), tuple(fastest))


def _holds(one: Measured, inputs: ReportInputs) -> str:
    """What lies on which device: by the model's header where it can be read, else the split's parts."""
    known = {} if inputs.walls is None else inputs.walls.holds.get(one.candidate.key(), {})
    if known:
        return "; ".join(f"{device}: {words}" for device, words in known.items())
    if not one.candidate.split:
        return f"{', '.join(one.candidate.devices)}: everything"
    parts = zip(one.candidate.devices, one.candidate.split, strict=False)
    whole = sum(one.candidate.split)
    return "; ".join(f"{device}: {part} of {whole} parts" for device, part in parts)


def _wall_sentences(inputs: ReportInputs, n_devices: int) -> list[str]:
    if inputs.walls is None:
        return ["Where each card is full is not drawn: the model's file cannot be read any more."]
    if n_devices > 2:
        return [
            "With more than two devices there is no one share at which a card is full: no walls are drawn."
        ]
    sentences = []
    for one in inputs.walls.modes:
        if one.nothing_fits:
            sentences.append(f"No {one.mode} split fits with {one.candidate.summary()}.")
        elif not one.walls:
            sentences.append(f"No {one.mode} split fills a card with {one.candidate.summary()}.")
        else:
            full = "; ".join(
                f"{wall.device} is full {'above' if wall.full_above else 'below'} {wall.at_pct:.0f} %"
                for wall in one.walls
            )
            sentences.append(f"{one.mode}: {full}, predicted for {one.candidate.summary()}.")
    return sentences


def _alt(curves: Sequence[SplitCurve], walls: Sequence[WallsOfMode], first: str) -> str:
    parts = []
    for curve in curves:
        top = max(curve.best, key=lambda one: one.tok_s)
        where = f"with {top.share_pct:.0f} % on {first}"
        parts.append(f"{curve.mode}: {len(curve.best)} splits, the fastest {top.tok_s:.1f} tok/s {where}")
    full = [
        f"{wall.device} full at {wall.at_pct:.0f} % in {one.mode} mode" for one in walls for wall in one.walls
    ]
    text = f"Generated tokens a second against the share of the model on {first}. {'; '.join(parts)}."
    return f"{text} Walls: {'; '.join(full)}." if full else text
