"""Speed against split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.report.page.figures.parts import MODE_COLOURS, RATE, Figure, scatter, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.report.view.split_speed import SplitPoint, SplitSpeed


def split_figure(section: SplitSpeed) -> Figure:
    """Speed against split."""
    data: list[Any] = []
    top = max(point.tok_s for curve in section.curves for point in curve.best) * 1.12
    for curve in section.curves:
        colour = MODE_COLOURS.get(curve.mode, "--other")
        points = curve.best
        name = "one card" if curve.mode == "none" else curve.mode
        data.append(
            {
                **scatter(
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
                    **scatter(
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
        colour = MODE_COLOURS.get(one.mode, "--other")
        for wall in one.walls:
            side = "more" if wall.full_above else "less"
            text = f"{wall.device} is full in {one.mode} mode with {side} than this on {section.first}"
            data.append(
                {
                    **scatter([wall.at_pct] * 2, [0, top], [wrapped(text)] * 2),
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
            "yaxis": {"title": {"text": RATE}, "range": [0, top]},
        },
    }


def _seen(section: SplitSpeed) -> list[float]:
    """From the smallest share that there is something at to the largest, with some room."""
    shares = [point.share_pct for curve in section.curves for point in curve.best]
    shares += [wall.at_pct for one in section.walls for wall in one.walls]
    room = max((max(shares) - min(shares)) * 0.08, 2.0)
    return [min(shares) - room, max(shares) + room]


def _split_text(points: Iterable[SplitPoint]) -> list[str]:
    return [
        wrapped(one.configuration, *one.holds.split("; "), f"{one.tok_s:.1f} tok/s, trial {one.trial}")
        for one in points
    ]
