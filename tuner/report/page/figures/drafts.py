"""Draft depth against speed and acceptance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.report.page.figures.parts import MODE_COLOURS, RATE, Figure, scatter, wrapped

if TYPE_CHECKING:
    from tuner.report.view.draft_depth import DraftDepth


def depth_figure(section: DraftDepth) -> Figure:
    """Draft depth against speed, and acceptance below it."""
    data: list[Any] = []
    for curve in section.curves:
        colour = MODE_COLOURS.get(curve.mode, "--other")
        text = [
            wrapped(f"{one.configuration}", f"{one.tok_s:.1f} tok/s, trial {one.trial}")
            for one in curve.points
        ]
        depths = [one.depth for one in curve.points]
        data.append(
            {
                **scatter(depths, [one.tok_s for one in curve.points], text),
                "mode": "lines+markers",
                "name": "one card" if curve.mode == "none" else curve.mode,
                "marker": {"color": colour, "size": 9},
                "line": {"color": colour, "width": 2},
            }
        )
        accepted = [one for one in curve.points if one.acceptance is not None]
        data.append(
            {
                **scatter(
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
            "yaxis": {"title": {"text": RATE}, "rangemode": "tozero", "domain": [0.4, 1]},
            "yaxis2": {"title": {"text": "accepted, %"}, "range": [0, 105], "domain": [0, 0.3]},
        },
    }
