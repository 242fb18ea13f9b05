"""What plots have in common.

Colours are names of the style sheet's variables (`--layer`): the page puts in what they are in the dark or in the
light.
"""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Figure = dict[str, Any]
"""`data` and `layout`."""

MODE_COLOURS = {"layer": "--layer", "tensor": "--tensor", "row": "--row", "none": "--one"}
#: A point's text, and nothing beside it.
HOVER = "%{text}<extra></extra>"
RATE = "tok/s"
_HOVER_COLUMNS = 44


def scatter(x: Sequence[Any], y: Sequence[Any], text: Sequence[str]) -> dict[str, Any]:
    """Points, each with what is shown of it when it is touched."""
    return {"type": "scatter", "x": list(x), "y": list(y), "text": list(text), "hovertemplate": HOVER}


def wrapped(*lines: str) -> str:
    """Lines of such a text, none of them wider than a phone."""
    parts = [part for line in lines for part in textwrap.wrap(line, _HOVER_COLUMNS)]
    return "<br>".join(html.escape(part) for part in parts)
