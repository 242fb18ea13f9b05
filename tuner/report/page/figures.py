"""The plots of a report, as plotly.js takes them.

Colours are names of the style sheet's variables (`--layer`): the page puts in what they are in the dark or in the
light.
"""

from __future__ import annotations

import html
import textwrap
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tuner.core.trial import Purpose
from tuner.report.view.memory import FREE, PARTS, RESERVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tuner.report.view.draft_depth import DraftDepth
    from tuner.report.view.memory import MemoryStacks
    from tuner.report.view.progress import Event, Progress
    from tuner.report.view.slots import BuildsSection, LadderSection
    from tuner.report.view.split_speed import SplitPoint, SplitSpeed
    from tuner.report.view.standings import ClassStanding, Standing

Figure = dict[str, Any]
"""`data` and `layout`."""

_MODE_COLOURS = {"layer": "--layer", "tensor": "--tensor", "row": "--row", "none": "--one"}
_PART_COLOURS = {
    "model": "--part-1",
    "KV cache": "--part-2",
    "compute": "--part-3",
    "draft": "--part-4",
    "overhead": "--part-5",
    RESERVE: "--reserve",
    FREE: "--free",
}
_HOVER = "%{text}<extra></extra>"
_HOVER_COLUMNS = 44
_RATE = "tok/s"


def split_figure(section: SplitSpeed) -> Figure:
    """Speed against split."""
    data: list[Any] = []
    top = max(point.tok_s for curve in section.curves for point in curve.best) * 1.12
    for curve in section.curves:
        colour = _MODE_COLOURS.get(curve.mode, "--other")
        points = curve.best
        name = "one card" if curve.mode == "none" else curve.mode
        data.append(
            {
                **_scatter(
                    [one.share_pct for one in points], [one.tok_s for one in points], _split_text(points)
                ),
                "mode": "markers" if curve.mode == "none" else "lines+markers",
                "name": name,
                "marker": {
                    "color": colour,
                    "size": 9,
                    "symbol": ["circle" if one.may_win else "circle-open" for one in points],
                },
                "line": {"color": colour, "width": 2},
            }
        )
        if curve.others:
            data.append(
                {
                    **_scatter(
                        [one.share_pct for one in curve.others],
                        [one.tok_s for one in curve.others],
                        _split_text(curve.others),
                    ),
                    "mode": "markers",
                    "name": f"{name}, slower",
                    "showlegend": False,
                    "marker": {"color": colour, "size": 6, "opacity": 0.45},
                }
            )
    for one in section.walls:
        colour = _MODE_COLOURS.get(one.mode, "--other")
        for wall in one.walls:
            side = "more" if wall.full_above else "less"
            text = f"{wall.device} is full in {one.mode} mode with {side} than this on {section.first}"
            data.append(
                {
                    **_scatter([wall.at_pct] * 2, [0, top], [_wrapped(text)] * 2),
                    "mode": "lines",
                    "name": f"{wall.device} full ({one.mode})",
                    "line": {
                        "color": colour,
                        "width": 2,
                        "dash": "dash" if wall.device == section.first else "dot",
                    },
                }
            )
    return {
        "data": data,
        "layout": {
            "xaxis": {
                "title": {"text": f"share of the model on {section.first}, %"},
                "range": _seen(section),
            },
            "yaxis": {"title": {"text": _RATE}, "range": [0, top]},
        },
    }


def depth_figure(section: DraftDepth) -> Figure:
    """Draft depth against speed, and acceptance below it."""
    data: list[Any] = []
    for curve in section.curves:
        colour = _MODE_COLOURS.get(curve.mode, "--other")
        text = [
            _wrapped(f"{one.configuration}", f"{one.tok_s:.1f} tok/s, trial {one.trial}")
            for one in curve.points
        ]
        depths = [one.depth for one in curve.points]
        data.append(
            {
                **_scatter(depths, [one.tok_s for one in curve.points], text),
                "mode": "lines+markers",
                "name": "one card" if curve.mode == "none" else curve.mode,
                "marker": {"color": colour, "size": 9},
                "line": {"color": colour, "width": 2},
            }
        )
        accepted = [one for one in curve.points if one.acceptance is not None]
        data.append(
            {
                **_scatter(
                    [one.depth for one in accepted],
                    [100 * one.acceptance for one in accepted if one.acceptance is not None],
                    [
                        f"{one.acceptance:.0%} accepted at {one.depth}"
                        for one in accepted
                        if one.acceptance is not None
                    ],
                ),
                "mode": "lines+markers",
                "showlegend": False,
                "name": f"{curve.mode}, accepted",
                "yaxis": "y2",
                "marker": {"color": colour, "size": 7, "symbol": "diamond"},
                "line": {"color": colour, "width": 2, "dash": "dot"},
            }
        )
    return {
        "data": data,
        "layout": {
            "xaxis": {"title": {"text": "tokens drafted at most at a time"}, "dtick": 1, "anchor": "y2"},
            "yaxis": {"title": {"text": _RATE}, "rangemode": "tozero", "domain": [0.4, 1]},
            "yaxis2": {"title": {"text": "accepted, %"}, "range": [0, 105], "domain": [0, 0.3]},
        },
    }


def progress_figure(section: Progress) -> Figure:
    """Best so far, and how each launch ended."""
    at = {
        one.trial: _at(one) if section.has_clock else one.trial
        for one in section.events
        if one.kind is not None
    }
    events = [one for one in section.events if one.trial in at]
    best = [one for one in events if one.best_tok_s is not None]
    data: list[Any] = [
        {
            "type": "scatter",
            "x": [at[one.trial] for one in best],
            "y": [one.best_tok_s for one in best],
            "mode": "lines",
            "name": "best so far",
            "line": {"color": "--ink-2", "width": 2, "shape": "hv"},
            "hovertemplate": "best so far: %{y:.1f} tok/s<extra></extra>",
        }
    ]
    groups = (
        ("search", "--layer", "circle", [one for one in events if one.purpose is Purpose.SEARCH]),
        ("confirmation", "--one", "diamond", [one for one in events if one.purpose is Purpose.CONFIRM]),
    )
    for name, colour, symbol, rows in groups:
        scored = [one for one in rows if one.score_tok_s is not None]
        if scored:
            data.append(
                {
                    **_scatter(
                        [at[one.trial] for one in scored],
                        [one.score_tok_s for one in scored],
                        [_event_text(one) for one in scored],
                    ),
                    "mode": "markers",
                    "name": name,
                    "marker": {"color": colour, "size": 8, "symbol": symbol},
                }
            )
    proofs = [one for one in events if one.purpose in {Purpose.SOAK, Purpose.ENDURE}]
    failed = [one for one in events if one.score_tok_s is None and one not in proofs]
    for name, colour, symbol, rows in (
        ("not measured", "--bad", "x", failed),
        ("soak, endurance", "--tensor", "square", proofs),
    ):
        if rows:
            data.append(
                {
                    **_scatter(
                        [at[one.trial] for one in rows], [0.0] * len(rows), [_event_text(one) for one in rows]
                    ),
                    "mode": "markers",
                    "name": name,
                    "cliponaxis": False,
                    "marker": {"color": colour, "size": 8, "symbol": symbol},
                }
            )
    x: dict[str, Any] = {"title": {"text": "time" if section.has_clock else "trial"}}
    return {
        "data": data,
        "layout": {
            "xaxis": {**x, "type": "date"} if section.has_clock else x,
            "yaxis": {"title": {"text": _RATE}, "rangemode": "tozero"},
        },
    }


def importance_figure(importances: Mapping[str, float]) -> Figure:
    """What each parameter explains."""
    names = list(importances)[::-1]
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": [100 * importances[name] for name in names],
                "y": [html.escape(name).replace(", ", "<br>") for name in names],
                "marker": {"color": "--layer"},
                "hovertemplate": "%{x:.0f} %<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": "part of the variation, %"}, "rangemode": "tozero"},
            "height": 120 + 34 * len(names),
        },
    }


def memory_figure(section: MemoryStacks) -> Figure:
    """Memory of each card, stacked."""
    cards = list(reversed(section.cards))
    data: list[Any] = []
    for part in (*PARTS, RESERVE, FREE):
        amounts = [card.parts_mib.get(part, 0.0) for card in cards]
        if not any(amounts):
            continue
        marker: dict[str, Any] = {"color": _PART_COLOURS[part]}
        if part == RESERVE:
            marker["pattern"] = {"shape": "/", "fgcolor": "--ink-2", "size": 6, "solidity": 0.25}
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": part,
                "x": [mib / 1024 for mib in amounts],
                "y": [html.escape(card.device) for card in cards],
                "marker": marker,
                "text": [f"{part}: {mib:,.0f} MiB" for mib in amounts],
                "textposition": "none",
                "hovertemplate": _HOVER,
            }
        )
    return {
        "data": data,
        "layout": {
            "barmode": "stack",
            "xaxis": {"title": {"text": "GiB"}},
            "height": 150 + 60 * len(cards),
            "legend": {"traceorder": "normal"},
        },
    }


def ratio_figure(rows: Sequence[Standing], classes: Sequence[ClassStanding]) -> Figure | None:
    """By how much the winner is faster, with intervals; None where nothing is confirmed."""
    named = [(f"<b>{html.escape(row.configuration)}</b>", row.interval) for row in rows]
    named += [(f"{html.escape(row.name)}, {html.escape(row.reference)}", row.interval) for row in classes]
    known = [(name, interval) for name, interval in reversed(named) if interval is not None]
    if not known:
        return None
    ends = [end for _, interval in known for end in (interval.low, interval.high, 1.0)]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "x": [interval.ratio for _, interval in known],
                "y": [name.replace(", ", "<br>") for name, _ in known],
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [interval.high - interval.ratio for _, interval in known],
                    "arrayminus": [interval.ratio - interval.low for _, interval in known],
                    "color": "--layer",
                    "thickness": 2,
                },
                "marker": {"color": "--layer", "size": 9},
                "text": [
                    f"{interval.ratio:.3f}x (95 %: {interval.low:.3f} to {interval.high:.3f})"
                    for _, interval in known
                ],
                "hovertemplate": _HOVER,
            }
        ],
        "layout": {
            "xaxis": {
                "title": {"text": "times as fast as the reference"},
                "range": [max(min(ends) - 0.1, 0), max(ends) + 0.1],
            },
            "shapes": [
                {
                    "type": "line",
                    "x0": 1,
                    "x1": 1,
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": "--ink-2", "width": 1, "dash": "dot"},
                }
            ],
            "height": 110 + 44 * len(known),
        },
    }


def ladder_figure(section: LadderSection) -> Figure:
    """Speed at each context, and what the engine makes of it by itself."""
    contexts = [f"{one.context:,}" for one in section.rungs]
    best = [one.tok_s for one in section.rungs]
    own = [one.engine_default_tok_s for one in section.rungs]
    text = [_wrapped(one.configuration) for one in section.rungs]
    data: list[Any] = [
        {
            **_scatter(contexts, best, text),
            "hovertemplate": "%{y:.1f} tok/s at %{x}<br>%{text}<extra></extra>",
            "mode": "lines+markers",
            "name": "best",
            "marker": {"color": "--layer", "size": 9},
            "line": {"color": "--layer", "width": 2},
        }
    ]
    if any(tok_s is not None for tok_s in own):
        data.append(
            {
                "type": "scatter",
                "x": contexts,
                "y": own,
                "mode": "lines+markers",
                "name": "the engine's own choice",
                "marker": {"color": "--ink-2", "size": 7},
                "line": {"color": "--ink-2", "width": 2, "dash": "dot"},
                "hovertemplate": "%{y:.1f} tok/s at %{x}<extra></extra>",
            }
        )
    return {
        "data": data,
        "layout": {
            "xaxis": {"title": {"text": "tokens of context"}, "type": "category"},
            "yaxis": {"title": {"text": _RATE}, "rangemode": "tozero"},
        },
    }


def builds_figure(section: BuildsSection) -> Figure:
    """The best with each build, as a line over builds."""
    points = section.points
    known = [one for one in points if one.low_tok_s is not None and one.high_tok_s is not None]
    spread = {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if one.high_tok_s is None else one.high_tok_s - one.tok_s for one in points],
        "arrayminus": [0.0 if one.low_tok_s is None else one.tok_s - one.low_tok_s for one in points],
        "color": "--layer",
        "thickness": 2,
    }
    return {
        "data": [
            {
                **_scatter(
                    [f"{html.escape(one.build)}<br>{one.date[:10]}" for one in points],
                    [one.tok_s for one in points],
                    [
                        _wrapped(one.configuration, f"{one.tok_s:.1f} tok/s, {one.date[:10]}")
                        for one in points
                    ],
                ),
                "mode": "lines+markers",
                "name": "best",
                "marker": {"color": "--layer", "size": 9},
                "line": {"color": "--layer", "width": 2},
                **({"error_y": spread} if known else {}),
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": "build"}, "type": "category"},
            "yaxis": {"title": {"text": _RATE}, "rangemode": "tozero"},
        },
    }


def _seen(section: SplitSpeed) -> list[float]:
    """From the smallest share that there is something at to the largest, with some room."""
    shares = [point.share_pct for curve in section.curves for point in curve.best]
    shares += [wall.at_pct for one in section.walls for wall in one.walls]
    room = max((max(shares) - min(shares)) * 0.08, 2.0)
    return [min(shares) - room, max(shares) + room]


def _scatter(x: Sequence[Any], y: Sequence[Any], text: Sequence[str]) -> dict[str, Any]:
    return {"type": "scatter", "x": list(x), "y": list(y), "text": list(text), "hovertemplate": _HOVER}


def _split_text(points: Iterable[SplitPoint]) -> list[str]:
    return [
        _wrapped(one.configuration, *one.holds.split("; "), f"{one.tok_s:.1f} tok/s, trial {one.trial}")
        for one in points
    ]


def _event_text(event: Event) -> str:
    made = event.sentence if event.score_tok_s is None else f"{event.score_tok_s:.1f} tok/s"
    return _wrapped(f"trial {event.trial} ({event.purpose}): {event.configuration}", made)


def _wrapped(*lines: str) -> str:
    """Lines of a hover text, none of them wider than a phone."""
    parts = [part for line in lines for part in textwrap.wrap(line, _HOVER_COLUMNS)]
    return "<br>".join(html.escape(part) for part in parts)


def _at(event: Event) -> str:
    """When it ended, by the clock of this machine."""
    return datetime.fromtimestamp(event.ended_s or 0.0).isoformat(sep=" ", timespec="seconds")  # noqa: DTZ006 - plotly shows what it is given
