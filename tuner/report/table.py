"""table.json and table.md: engine by file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner import __version__
from tuner.core.outcome import Kind
from tuner.core.quality import nats
from tuner.core.table import Row
from tuner.report.proof import label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.quality import Loss
    from tuner.core.trial import TrialRecord
    from tuner.search.racing import Out

SCHEMA_VERSION = 1
_COLUMNS = (
    *("engine", "file", "GiB", "best configuration", "tok/s", "by class", "of the winner (95 %)"),
    *("largest context", "least free", "answers off", "launches", ""),
)


def row_of(
    name: str,
    engine: str,
    file: str,
    size_bytes: int,
    *,
    best: Mapping[str, Any] | None,
    records: Sequence[TrialRecord],
    context: int,
    longest: TrialRecord | None,
    expected_context: int | None,
    loss: Loss | None,
    is_reference: bool,
    out: Out | None,
) -> Row:
    """A row out of the best.json of its study.

    Args:
        name: Of its study.
        engine: What the engine is called.
        file: What the file is called.
        size_bytes: The file's.
        best: The document; None where nothing was measured.
        records: The study's trials.
        context: Tokens that it was tuned at.
        longest: The launch of its best with the largest context; None where none was made with more.
        expected_context: The largest that its best is expected to fit with; None where nobody knows.
        loss: How far its best's answers are from the largest file's.
        is_reference: Whether it is what the others are compared with.
        out: Why it cannot win; None where it can.
    """
    winner = {} if best is None else best["winner"]
    default = [] if best is None else [one for one in best["references"] if one["name"] == "engine-default"]
    reached = context if longest is None or longest.candidate is None else longest.candidate.get("ctx-size")
    tokens = reached if isinstance(reached, int) else context
    outcomes = [record.outcome for record in records if record.outcome is not None]
    soak = {} if best is None else best.get("soak") or {}
    memory = winner.get("memory_mib") or {}
    return Row(
        name=name,
        engine=engine,
        file=file,
        size_bytes=size_bytes,
        configuration=next((label(one) for one in records if one.number == winner.get("trial")), None),
        reference=winner.get("reference"),
        command=winner.get("command"),
        score_tok_s=winner.get("score_tok_s"),
        beside_tok_s=None,
        ratio=None,
        prompt_tok_s=(winner.get("rates") or {}).get("prompt_tok_s"),
        classes_tok_s=tuple(
            (kind, rates["generation_tok_s"])
            for kind, rates in (winner.get("classes") or {}).items()
            if rates["generation_tok_s"] is not None
        ),
        engine_default_tok_s=default[0]["score_tok_s"] if default else None,
        context_tokens=tokens,
        context_tok_s=winner.get("score_tok_s") if longest is None else longest.score,
        expected_context_tokens=expected_context
        if longest is None and expected_context is not None and expected_context > tokens
        else None,
        free_mib=tuple((soak.get("free_mib") or memory.get("free") or {}).items()),
        loss=loss,
        is_reference=is_reference,
        launches=len(records),
        out_of_memory=sum(one.kind is Kind.OUT_OF_MEMORY for one in outcomes),
        out=None if out is None else (out.by, out.why, out.launches),
    )


def table_document(
    rows: Sequence[Row],
    *,
    date: str,
    engines: Sequence[Mapping[str, Any]],
    files: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    state: Mapping[str, Any],
) -> dict[str, Any]:
    """table.json.

    Args:
        rows: One a cell.
        date: When this is written, ISO 8601 with offset.
        engines: Name, path, version and digest of each.
        files: Name, path, size and fingerprint of each.
        notes: What else is to be said, a sentence each.
        state: Where the race stands, so that it can be gone on with.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "tuner_version": __version__,
        "date": date,
        "engines": list(engines),
        "files": list(files),
        "winner": next((row.name for row in rows if row.is_winner), None),
        "worth_having": [row.name for row in rows if row.is_worth_having],
        "rows": [row.to_json() for row in rows],
        "notes": list(notes),
        "state": dict(state),
    }


def table_markdown(rows: Sequence[Row], notes: Sequence[str] = ()) -> str:
    """The table, and what is to be said of it."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---|---|--:|---|--:|---|---|---|---|---|--:|---|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in sorted(rows, key=lambda row: row.engine)]
    sentences = [*_sentences(rows), *notes]
    return "\n".join([*lines, *(["", *sentences] if sentences else [])])


def _cells(row: Row) -> tuple[str, ...]:
    head = (row.engine, row.file, f"{row.size_bytes / 2**30:.2f}")
    marks = [("winner", row.is_winner), ("Pareto", row.is_worth_having), ("out", row.out is not None)]
    tail = (str(row.launches), ", ".join(name for name, is_so in marks if is_so))
    if row.score_tok_s is None:
        return (*head, "nothing runs" if row.out else "", "", "", "", "", "", "", *tail)
    ratio = "" if row.ratio is None else "{:.2f} ({:.2f} to {:.2f})".format(*row.ratio)
    context = f"{row.context_tokens:,}"
    if row.expected_context_tokens is not None:
        context += f" ({row.expected_context_tokens:,} expected)"
    elif row.context_tok_s is not None:
        context += f" at {row.context_tok_s:.1f} tok/s"
    return (
        *head,
        f"`{row.configuration}`",
        f"{row.score_tok_s:.1f}",
        ", ".join(f"{kind} {tok_s:.1f}" for kind, tok_s in row.classes_tok_s),
        ratio,
        context,
        ", ".join(f"{device} {mib:,} MiB" for device, mib in row.free_mib),
        _answers(row),
        *tail,
    )


def _answers(row: Row) -> str:
    """How far its answers are off, in nats of next tokens."""
    if row.loss is None:
        return "0 (the reference)" if row.is_reference else "not compared"
    return f"{nats(row.loss.judged_nats)}, same token {row.loss.top1:.0%}"


def _sentences(rows: Sequence[Row]) -> list[str]:
    """What the table does not say."""
    lines = []
    reference = next((row for row in rows if row.is_reference), None)
    if reference is not None:
        lines.append(
            f"Answers: next tokens at fixed places, against the plain reference of {reference.file} with "
            f"{reference.engine} (Kullback-Leibler divergence, median)."
        )
    worth = [row for row in rows if row.is_worth_having]
    winner = next((row for row in rows if row.is_winner), None)
    others = [row for row in worth if not row.is_winner]
    if winner is not None and others:
        lines += [f"Instead of {winner.name}: {row.name} {_difference(row, winner)}." for row in others]
    return lines + [f"Out: {row.name}, {_loss(*row.out)}." for row in rows if row.out is not None]


def _loss(by: str | None, why: str, launches: int) -> str:
    return f"after {launches} launches{'' if by is None else f', by {by}'}: {why}"


def _difference(row: Row, winner: Row) -> str:
    """What another one has over the winner, and what it costs."""
    parts = []
    ratio = row.ratio
    if ratio is not None:
        parts.append("makes {:.2f} times as much (95 %: {:.2f} to {:.2f})".format(*ratio))
    elif row.score_tok_s and winner.score_tok_s:
        parts.append(f"makes {row.score_tok_s / winner.score_tok_s:.2f} times as much, not side by side")
    mine, theirs = _context(row), _context(winner)
    if mine != theirs:
        parts.append(f"has {mine:,} tokens of context instead of {theirs:,}")
    off, their_off = _off(row), _off(winner)
    if off is not None and their_off is not None and row.file != winner.file:
        parts.append(f"answers {nats(off)} off instead of {nats(their_off)}")
    return ", ".join(parts)


def _context(row: Row) -> int:
    return row.expected_context_tokens or row.context_tokens


def _off(row: Row) -> float | None:
    return 0.0 if row.loss is None and row.is_reference else row.off_nats
