"""ladder.json and ladder.md: what more context costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner import __version__
from tuner.core.ladder import Rung
from tuner.core.outcome import Kind
from tuner.report.proof import label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord

SCHEMA_VERSION = 1
_COLUMNS = (
    *(
        "context",
        "best configuration",
        "tok/s",
        "of the first",
        "prompt tok/s",
        "engine's own",
        "ratio (95 %)",
    ),
    *("least free", "launches", "out of memory"),
)


def rung_of(
    best: Mapping[str, Any] | None, records: Sequence[TrialRecord], *, context: int, is_max: bool
) -> Rung:
    """A rung out of the best.json of its study.

    Args:
        best: The document; None where nothing was measured.
        records: The study's trials.
        context: Tokens.
        is_max: Whether it was found out to be the largest.
    """
    outcomes = [record.outcome for record in records if record.outcome is not None]
    launches, lost = len(records), sum(one.kind is Kind.OUT_OF_MEMORY for one in outcomes)
    if best is None:
        return Rung(context, is_max, None, None, None, launches, lost, None, None, (), None)
    default = next((one for one in best["references"] if one["name"] == "engine-default"), None)
    compared = (best.get("confirmation") or {}).get("references", [])
    ratio = next(
        (
            (row["ratio"], *row["interval"])
            for row in compared
            if row["name"] == "engine-default" and row.get("ratio") is not None and row.get("interval")
        ),
        None,
    )
    soak = best.get("soak") or {}
    return Rung(
        context=context,
        is_max=is_max,
        configuration=next(label(one) for one in records if one.number == best["winner"]["trial"]),
        score_tok_s=best["winner"]["score_tok_s"],
        prompt_tok_s=(best["winner"]["rates"] or {}).get("prompt_tok_s"),
        launches=launches,
        out_of_memory=lost,
        engine_default_tok_s=None if default is None else default["score_tok_s"],
        ratio=ratio,
        free_mib=tuple((soak.get("free_mib") or {}).items()),
        command=best["winner"]["command"],
    )


def ladder_document(
    rungs: Sequence[Rung], *, date: str, asked: str, tried_as_max: Sequence[int]
) -> dict[str, Any]:
    """ladder.json.

    Args:
        rungs: From the smallest context up.
        date: When this is written, ISO 8601 with offset.
        asked: What `--context` said.
        tried_as_max: Contexts that were found out to be the largest, in order.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "tuner_version": __version__,
        "date": date,
        "asked": asked,
        "tried_as_max": list(tried_as_max),
        "rungs": [rung.to_json() for rung in rungs],
    }


def ladder_markdown(rungs: Sequence[Rung]) -> str:
    """The table that people ask for: what is lost by more context."""
    lines = [
        f"| {' | '.join(_COLUMNS)} |",
        "|--:|---|--:|--:|--:|--:|---|---|--:|--:|",
    ]
    first = next((rung.score_tok_s for rung in rungs if rung.score_tok_s is not None), None)
    for rung in rungs:
        context = f"{rung.context:,}{' (max)' if rung.is_max else ''}"
        own = "does not run" if rung.engine_default_tok_s is None else f"{rung.engine_default_tok_s:.1f}"
        counts = f"{rung.launches} | {rung.out_of_memory} |"
        if rung.score_tok_s is None:
            lines.append(f"| {context} | nothing runs | | | | {own} | | | {counts}")
            continue
        part = "" if not first else f"{rung.score_tok_s / first:.0%}"
        prompt = "" if rung.prompt_tok_s is None else f"{rung.prompt_tok_s:.0f}"
        ratio = "" if rung.ratio is None else "{:.2f} ({:.2f} to {:.2f})".format(*rung.ratio)
        free = ", ".join(f"{device} {mib:,} MiB" for device, mib in rung.free_mib)
        lines.append(
            f"| {context} | `{rung.configuration}` | {rung.score_tok_s:.1f} | {part} | {prompt} | {own} | {ratio} | "
            f"{free} | {counts}"
        )
    return "\n".join(lines)
