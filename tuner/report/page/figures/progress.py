"""Best so far, and how each launch ended."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tuner.core.trial import Purpose
from tuner.report.page.figures.parts import RATE, Figure, scatter, wrapped

if TYPE_CHECKING:
    from tuner.report.view.progress import Event, Progress


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
                    **scatter(
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
                    **scatter(
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
            "yaxis": {"title": {"text": RATE}, "rangemode": "tozero"},
        },
    }


def _event_text(event: Event) -> str:
    made = event.sentence if event.score_tok_s is None else f"{event.score_tok_s:.1f} tok/s"
    return wrapped(f"trial {event.trial} ({event.purpose}): {event.configuration}", made)


def _at(event: Event) -> str:
    """When it ended, by the clock of this machine."""
    return datetime.fromtimestamp(event.ended_s or 0.0).isoformat(sep=" ", timespec="seconds")  # noqa: DTZ006 - plotly shows what it is given
