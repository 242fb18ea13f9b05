"""Plots of what is known with its spread: ratios, contexts, builds."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from tuner.report.page.figures.parts import HOVER, RATE, Figure, scatter, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.view.slots import BuildsSection, LadderSection
    from tuner.report.view.standings import ClassStanding, Standing
    from tuner.search.confirmation.interval import Interval


#: Ends of intervals are shown as far as so many times the largest ratio.
_MOST_SHOWN = 3


def ratio_figure(rows: Sequence[Standing], classes: Sequence[ClassStanding]) -> Figure | None:
    """By how much the winner is faster, with intervals; None where nothing is confirmed."""
    named = [(f"<b>{html.escape(row.configuration)}</b>", row.interval) for row in rows]
    named += [(f"{html.escape(row.name)}, {html.escape(row.reference)}", row.interval) for row in classes]
    known = [(name, interval) for name, interval in reversed(named) if interval is not None]
    if not known:
        return None
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
                "hovertemplate": HOVER,
            }
        ],
        "layout": {
            "xaxis": {
                "title": {"text": "times as fast as the reference"},
                "range": _seen([interval for _, interval in known]),
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


def _seen(intervals: Sequence[Interval]) -> list[float]:
    """From the least to the most, and 1; an interval that two launches left wide open is cut."""
    ratios = [1.0, *(one.ratio for one in intervals)]
    low = max(min(1.0, *(one.low for one in intervals)), min(ratios) / _MOST_SHOWN)
    high = min(max(1.0, *(one.high for one in intervals)), max(ratios) * _MOST_SHOWN)
    return [max(low - 0.1, 0), high + 0.1]


def ladder_figure(section: LadderSection) -> Figure:
    """Speed at each context, and what the engine makes of it by itself."""
    contexts = [f"{one.context:,}" for one in section.rungs]
    best = [one.tok_s for one in section.rungs]
    own = [one.engine_default_tok_s for one in section.rungs]
    text = [wrapped(one.configuration) for one in section.rungs]
    data: list[Any] = [
        {
            **scatter(contexts, best, text),
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
            "yaxis": {"title": {"text": RATE}, "rangemode": "tozero"},
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
                **scatter(
                    [f"{html.escape(one.build)}<br>{one.date[:10]}" for one in points],
                    [one.tok_s for one in points],
                    [wrapped(one.configuration, f"{one.tok_s:.1f} tok/s, {one.date[:10]}") for one in points],
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
            "yaxis": {"title": {"text": RATE}, "rangemode": "tozero"},
        },
    }
