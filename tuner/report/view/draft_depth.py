"""Draft depth against speed and acceptance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.report.view.measured import Measured, measured_candidates
from tuner.report.view.split_speed import MODES
from tuner.report.view.table import Table, table
from tuner.report.words import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.view.inputs import ReportInputs


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """The fastest candidate of a split mode that drafts so deep."""

    depth: int
    """Tokens drafted at most at a time; 0 without drafts of a model."""
    tok_s: float
    acceptance: float | None
    """Accepted over drafted tokens."""
    configuration: str
    trial: int


@dataclass(frozen=True, slots=True)
class DepthCurve:
    """One split mode, from no drafts up."""

    mode: str
    points: tuple[DepthPoint, ...]


@dataclass(frozen=True, slots=True)
class DraftDepth:
    """The section."""

    curves: tuple[DepthCurve, ...]
    alt: str


def draft_depth(inputs: ReportInputs) -> DraftDepth | None:
    """The section; None where nothing that drafts was measured."""
    found = [one for one in measured_candidates(inputs.records, inputs.confirmation) if one.may_win]
    if not any(one.candidate.draft_depth for one in found):
        return None
    curves = tuple(
        DepthCurve(mode, points)
        for mode in MODES
        if (points := _points([one for one in found if one.mode == mode]))
    )
    return DraftDepth(curves, _alt(curves))


def depth_table(section: DraftDepth) -> Table:
    """The points as figures."""
    return table(
        "mode|>drafted at most|>tok/s|>accepted|configuration|>trial",
        [
            (
                curve.mode,
                str(point.depth) if point.depth else "no drafts",
                f"{point.tok_s:.1f}",
                number(point.acceptance, ".0%"),
                point.configuration,
                str(point.trial),
            )
            for curve in section.curves
            for point in curve.points
        ],
    )


def _points(found: Sequence[Measured]) -> tuple[DepthPoint, ...]:
    best: dict[int, Measured] = {}
    for one in found:
        depth = one.candidate.draft_depth
        if one.candidate.drafts and not depth:
            continue  # drafts out of the text alone have no depth of their own
        if depth not in best or one.score_tok_s > best[depth].score_tok_s:
            best[depth] = one
    return tuple(_point(depth, best[depth]) for depth in sorted(best))


def _point(depth: int, one: Measured) -> DepthPoint:
    rates = one.record.rates
    acceptance = None if rates is None else rates.acceptance
    return DepthPoint(depth, one.score_tok_s, acceptance, one.candidate.summary(), one.record.number)


def _alt(curves: Sequence[DepthCurve]) -> str:
    parts = []
    for curve in curves:
        top = max(curve.points, key=lambda one: one.tok_s)
        deep = f"{top.depth} tokens" if top.depth else "no drafts"
        parts.append(f"{curve.mode}: fastest with {deep}, {top.tok_s:.1f} tok/s")
    return f"Generated tokens a second, and accepted drafts, against draft depth. {'; '.join(parts)}."
