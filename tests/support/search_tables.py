"""The tables of docs/search.md, made from the JSON that the bench printed."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
NEVER = 81


def document(name: str) -> dict[str, Any]:
    """What the bench printed."""
    loaded: dict[str, Any] = json.loads((DOCS / name).read_text(encoding="utf-8"))
    return loaded


def strategies(rig: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A rig's rows by their names."""
    return {row["name"]: row for row in rig["strategies"]}


def main_table() -> str:
    """Every rig and strategy."""
    lines = [
        "| rig (best tok/s) | tuner | 98 % | OOM | tpe | 98 % | OOM | random | 98 % | OOM | grid | 98 % | OOM |",
        "|---|---" + "|--:|--:|---" * 3 + "|--:|--:|",
    ]
    for rig in document("search.json")["rigs"]:
        rows = strategies(rig)
        cells = [cell for name in ("tuner", "tpe", "random", "grid") for cell in _cells(rows[name])]
        lines.append(f"| {rig['rig']} ({rig['best_tok_s']:.1f}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def factors_table() -> str:
    """The tuner on rigs whose reductions, overhead and noise are others."""
    lines = ["| rig | half | 98 % | OOM | twice | 98 % | OOM |", "|---|---|--:|--:|---|--:|--:|"]
    rigs: dict[str, list[str]] = {}
    for rig in document("search-factors.json")["rigs"]:
        name = rig["rig"].rsplit(" x", 1)[0]
        rigs.setdefault(name, []).extend(_cells(rig["strategies"][0]))
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rigs.items())])


def share_of_tpe() -> float:
    """Launches to 98 % over those of TPE, the median over the rigs."""
    shares = []
    for rig in document("search.json")["rigs"]:
        rows = strategies(rig)
        shares.append((rows["tuner"]["launches_to_98"] or NEVER) / (rows["tpe"]["launches_to_98"] or NEVER))
    return median(shares)


def _cells(row: dict[str, Any]) -> list[str]:
    parts = [f"{part * 100:.1f}" for part in row["fraction"].values() if part is not None]
    goal = row["launches_to_98"]
    return [" / ".join(parts), "never" if goal is None else f"{goal:g}", f"{row['oom_in_first_20']:g}"]
