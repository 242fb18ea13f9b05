"""What a retune shows before anything is launched: part by part, whether the result still holds."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import typer

from tuner.core.freshness.change import Freshness
from tuner.search.canary.claim import claim_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.freshness.change import Change

_COLOURS = {
    Freshness.FRESH: typer.colors.GREEN,
    Freshness.DOUBTFUL: typer.colors.YELLOW,
    Freshness.STALE: typer.colors.RED,
}
_WORDS = {Freshness.FRESH: "as it was", Freshness.DOUBTFUL: "changed", Freshness.STALE: "stale"}
_PART_WIDTH, _STATE_WIDTH = 11, 11
_INDENT = _PART_WIDTH + _STATE_WIDTH
_NARROWEST, _WIDEST = 60, 140


def claim_line(best: Mapping[str, Any], configuration: str) -> str:
    """What the result says, in one line."""
    study, claim = best["study"], claim_of(best)
    said = f"{study['name']}, {best['date'][:10]}: {configuration}"
    score = best["winner"].get("score_tok_s")
    if score is not None:
        said += f", {score:.1f} tok/s"
    if claim is not None:
        said += (
            f", {claim.ratio:.3f} times {_REFERENCES.get(claim.reference, claim.reference)} "
            f"({claim.low:.3f} to {claim.high:.3f})"
        )
    return said


_REFERENCES = {"engine-default": "the engine's own choice", "current": "your command"}


def freshness_screen(changes: Sequence[Change], columns: int) -> list[str]:
    """A line or two for each part."""
    width = min(max(columns, _NARROWEST), _WIDEST)
    lines: list[str] = []
    part = ""
    for change in changes:
        head = "" if change.part == part else change.part
        part = change.part
        said = f"{change.what}; in doubt: {change.doubt}" if change.doubt else change.what
        first, *others = textwrap.wrap(
            said, width - _INDENT, break_long_words=False, break_on_hyphens=False
        ) or [""]
        state = typer.style(_WORDS[change.state].ljust(_STATE_WIDTH), fg=_COLOURS[change.state])
        lines += [f"{head:<{_PART_WIDTH}}{state}{first}", *(" " * _INDENT + line for line in others)]
    return lines
