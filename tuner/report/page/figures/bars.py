"""Plots of bars: what parameters decide, and memory of each card."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from tuner.report.page.figures.parts import HOVER, Figure
from tuner.report.view.memory import FREE, PARTS, RESERVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.view.memory import MemoryStacks


_PART_COLOURS = {
    "model": "--part-1",
    "KV cache": "--part-2",
    "compute": "--part-3",
    "draft": "--part-4",
    "overhead": "--part-5",
    RESERVE: "--reserve",
    FREE: "--free",
}
#: A card that has so many times another's memory would make its bar a line.
_MUCH_LARGER = 4


def importance_figure(importances: Mapping[str, float]) -> Figure:
    """How much each parameter decides."""
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
            "xaxis": {"title": {"text": "importance, %"}, "rangemode": "tozero"},
            "height": 120 + 34 * len(names),
        },
    }


def memory_figure(section: MemoryStacks) -> Figure:
    """Memory of each card, stacked; as parts of what each had free, where one has many times the other's."""
    cards = list(reversed(section.cards))
    known = [card.available_mib for card in cards if card.available_mib]
    as_parts = len(known) == len(cards) and max(known) > _MUCH_LARGER * min(known)
    whole = [100 / card.available_mib if as_parts and card.available_mib else 1 / 1024 for card in cards]
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
                "x": [mib * scale for mib, scale in zip(amounts, whole, strict=True)],
                "y": [html.escape(card.device) for card in cards],
                "marker": marker,
                "text": [f"{part}: {mib:,.0f} MiB" for mib in amounts],
                "textposition": "none",
                "hovertemplate": HOVER,
            }
        )
    return {
        "data": data,
        "layout": {
            "barmode": "stack",
            "xaxis": {"title": {"text": "% of what was free" if as_parts else "GiB"}},
            "height": 150 + 60 * len(cards),
            "legend": {"traceorder": "normal"},
        },
    }
