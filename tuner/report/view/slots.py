"""Sections that come from other results than the study's own: a ladder of contexts, engine by file, builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.report.view.table import Table, table
from tuner.report.words import NOTHING, number, times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class RungPoint:
    """One context."""

    context: int
    is_max: bool
    tok_s: float | None
    """None where nothing runs."""
    engine_default_tok_s: float | None
    configuration: str
    command: str | None


@dataclass(frozen=True, slots=True)
class LadderSection:
    """What more context costs."""

    rungs: tuple[RungPoint, ...]
    figures: Table
    alt: str


@dataclass(frozen=True, slots=True)
class EnginesSection:
    """What came of several engines and files."""

    figures: Table
    sentences: tuple[str, ...]


def engines_section(document: Mapping[str, Any]) -> EnginesSection | None:
    """The section: engine by file; None where no cell has a result yet.

    Args:
        document: table.json.
    """
    rows = document["rows"]
    if not rows:
        return None
    heads = (
        "engine|file|>GiB|best configuration|>tok/s|by class|of the winner (95 %)|largest context|least free|"
        "answers off|>launches|"
    )
    figures = table(f"{heads}what it is", [_engine_cells(row) for row in rows])
    return EnginesSection(figures, tuple(document.get("notes", ())))


def _engine_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    loss, out = row["loss"], row["out"]
    marks = [
        ("the winner", row["is_winner"]),
        ("beaten by none in speed, context and answers", row["is_worth_having"]),
        (f"out: {(out or {}).get('why')}", out is not None),
    ]
    context = f"{row['context_tokens']:,}"
    if row["expected_context_tokens"] is not None:
        context += f" ({row['expected_context_tokens']:,} expected)"
    answers = "the reference" if row["is_reference"] else NOTHING
    if loss is not None:
        answers = f"{loss['kl_nats']:.2g} nats, same token {loss['top1']:.0%}"
    return (
        row["engine"],
        row["file"],
        f"{row['size_bytes'] / 2**30:.2f}",
        row["configuration"] or "nothing runs",
        number(row["score_tok_s"], ".1f"),
        ", ".join(f"{name} {tok_s:.1f}" for name, tok_s in row["classes_tok_s"].items()) or NOTHING,
        _ratio(row["ratio"]),
        context,
        ", ".join(f"{device} {mib:,} MiB" for device, mib in row["free_mib"].items()) or NOTHING,
        answers,
        str(row["launches"]),
        ", ".join(name for name, is_so in marks if is_so) or NOTHING,
    )


@dataclass(frozen=True, slots=True)
class BuildPoint:
    """What was best on the rig at some time."""

    date: str
    """ISO 8601."""
    build: str
    """The engine, as people call it."""
    tok_s: float
    low_tok_s: float | None
    """The ends of its interval; None where it was not confirmed."""
    high_tok_s: float | None
    configuration: str


@dataclass(frozen=True, slots=True)
class BuildsSection:
    """What was best with which build."""

    points: tuple[BuildPoint, ...]
    figures: Table
    alt: str


def builds_section(points: Sequence[BuildPoint]) -> BuildsSection | None:
    """The section; None where there is nothing to compare with.

    Args:
        points: The oldest first.
    """
    if len(points) < 2:
        return None
    rows = [(one.date, one.build, f"{one.tok_s:.1f}", one.configuration) for one in points]
    told = "; ".join(f"{one.build}: {one.tok_s:.1f} tok/s" for one in points)
    alt = f"The best generated tokens a second with each build, the oldest first. {told}."
    return BuildsSection(tuple(points), table("date|build|>tok/s|configuration", rows), alt)


def ladder_section(document: Mapping[str, Any]) -> LadderSection | None:
    """The section; None where no rung was climbed yet.

    Args:
        document: ladder.json.
    """
    rungs = document["rungs"]
    if not rungs:
        return None
    points = tuple(
        RungPoint(
            rung["context"],
            rung["is_max"],
            rung["score_tok_s"],
            rung["engine_default_tok_s"],
            rung["configuration"] or "nothing runs",
            rung["command"],
        )
        for rung in rungs
    )
    rows = [
        (
            f"{rung['context']:,}{' (max)' if rung['is_max'] else ''}",
            rung["configuration"] or "nothing runs",
            number(rung["score_tok_s"], ".1f"),
            number(rung["prompt_tok_s"], ".0f"),
            number(rung["engine_default_tok_s"], ".1f"),
            _ratio(rung["ratio"]),
            ", ".join(f"{device} {mib:,} MiB" for device, mib in rung["free_mib"].items()) or NOTHING,
            str(rung["launches"]),
            str(rung["out_of_memory"]),
        )
        for rung in rungs
    ]
    heads = (
        ">context|best configuration|>tok/s|>prompt tok/s|>engine's own|ratio (95 %)|least free|>launches|"
        ">out of memory"
    )
    return LadderSection(points, table(heads, rows), _alt(points))


def _ratio(document: Mapping[str, Any] | None) -> str:
    if document is None:
        return NOTHING
    low, high = document["interval"]
    return f"{times(document['ratio'])}x ({times(low)} to {times(high)})"


def _alt(points: Sequence[RungPoint]) -> str:
    rows = [
        f"{one.context:,} tokens: " + ("nothing runs" if one.tok_s is None else f"{one.tok_s:.1f} tok/s")
        for one in points
    ]
    return f"The best generated tokens a second at each context. {'; '.join(rows)}."
