"""What every export says of itself, in lines that can stand in a comment of any form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.exports.form import Served

#: Line breaks, and what YAML does not take even in a comment.
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]+")


def about(served: Served) -> list[str]:
    """Where it comes from, what was measured and with what; a sentence a line, none broken."""
    document = served.document
    engine, model = document["engine"], document["model"]
    lines = [
        f"{model['name']} on {', '.join(device_text(d.name, d.description) for d in served.devices)}",
        f"{rate(document)}{against(document)}",
        f"Measured with {engine['version']} [{engine['digest'][:12]}], {served.program}",
        (
            f"Study {document['study']['name']}, trial {document['winner']['trial']}; written {document['date']} by "
            f"split-ratio-tuner {document['tuner_version']}"
        ),
    ]
    if served.pinned:
        cards = ", ".join(f"{d.name} is {d.uuid}" for d in served.devices if d.uuid is not None)
        lines.append(f"Cards: {cards}")
    return [one_line(line) for line in lines]


def device_text(name: str, description: str) -> str:
    """A device as people name it; an RPC server's address says nothing of its card."""
    return name if name.startswith("RPC") else f"{name} ({description})"


def rate(document: Mapping[str, Any]) -> str:
    """What the winner makes."""
    winner = document["winner"]
    rates = winner["rates"] or {}
    each = rates.get("generation_tok_s")
    text = "no rate" if each is None else f"{each:.1f} tok/s"
    if rates.get("prompt_tok_s") is not None:
        text += f", prompt {rates['prompt_tok_s']:.0f} tok/s"
    return text


def against(document: Mapping[str, Any]) -> str:
    """How the winner compares with its references, with the interval where it was confirmed."""
    names = {"engine-default": "the engine's own choice", "current": "the command used before"}
    parts = []
    for row in document["references"]:
        said = ratio_text(document, row["name"])
        if said and document["winner"]["reference"] != row["name"]:
            parts.append(f"{said} of {names.get(row['name'], row['name'])}")
    return f"; {', '.join(parts)}" if parts else ""


def ratio_text(document: Mapping[str, Any], reference: str) -> str:
    """The winner over a reference: confirmed with its interval, else as it was searched; empty if not measured."""
    compared = (document.get("confirmation") or {}).get("references", [])
    row = next((one for one in compared if one and one["name"] == reference), None)
    if row is not None and row["ratio"] is not None:
        low, high = row["interval"]
        doubt = "" if row["significant"] else ", no significant difference"
        return f"{row['ratio']:.3f}x (95 %: {low:.3f} to {high:.3f}{doubt})"
    searched = next((one["winner_ratio"] for one in document["references"] if one["name"] == reference), None)
    return "" if searched is None else f"{searched:.2f}x (not confirmed)"


def one_line(text: str) -> str:
    """A text that cannot leave a comment: no line break, and no backslash at its end."""
    return _BREAKS.sub(" ", text).rstrip().rstrip("\\")


def commented(lines: list[str], mark: str = "#") -> str:
    """Lines as a comment."""
    return "".join(f"{mark} {line}\n" for line in lines)
